"""make_text.py FILE [BYTES]: writes text of invented words, the same bytes on every machine. Words repeat as they do in prose (the n-th
most frequent one is n times as rare), so that a model learns something from it."""

import random
import sys


def words_of(draw):
    """Invented words, the most frequent ones first and short."""
    onsets = "b c d f g h j k l m n p r s t v w br ch cl dr fl gr pl sh sl st th tr".split()
    nuclei = "a e i o u ai ea ee oa ou".split()
    codas = ["", "", "", "l", "m", "n", "r", "s", "t", "nd", "st"]
    made = {}
    while len(made) < 600:
        syllables = 1 + (len(made) > 60) + (len(made) > 300)
        word = "".join(draw.choice(onsets) + draw.choice(nuclei) + draw.choice(codas) for _ in range(syllables))
        made[word] = None
    return list(made)


def text(size, seed=1):
    """Sentences and paragraphs of at least `size` characters, cut there."""
    draw = random.Random(seed)
    words = words_of(draw)
    rarity = [1 / (n + 1) for n in range(len(words))]
    parts, length = [], 0
    while length < size:
        sentence = " ".join(draw.choices(words, rarity, k=draw.randint(4, 14))).capitalize()
        end = draw.choices([". ", "? ", ".\n\n"], [8, 1, 1])[0]
        parts.append(sentence + end)
        length += len(sentence) + len(end)
    return "".join(parts)[:size]


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write(text(int(sys.argv[2]) if len(sys.argv) > 2 else 400_000))
