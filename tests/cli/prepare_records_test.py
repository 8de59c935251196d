"""Records of token ids, of prompts and completions, and of instructions, as prepare-data takes them: samples, masks and counts are those of references that are
written here, with ids of the tokenizers library."""

import csv
import json
import random

from inputs_test import needs_tables
from lockstep_testing import needs, run, sample_text
from prepare_data_test import digest, documents, manifest, prepare, trained_bpe

END, IGNORED = 256, -100  # of the bytes tokenizer; of labels


def masked_documents(dataset, split="train"):
    """The documents of a split, each as its tokens and their mask, by h5py."""
    h5py = needs("h5py")
    tokens, mask, starts = [], [], []
    for path in sorted((dataset / split).glob("tokens-*.h5")):
        with h5py.File(path) as file:
            starts += [len(tokens) + int(start) for start in file["documents"][:]]
            tokens += file["tokens"][:].tolist()
            mask += file["mask"][:].tolist()
    assert len(tokens) == len(mask)
    return [(tokens[a:b], mask[a:b]) for a, b in zip(starts, starts[1:] + [len(tokens)])]


def prepared(tmp, *inputs, name="data", form="tokenized", tokenizer="bytes", validation="none", ranks=None, **settings):
    options = [part for key, value in settings.items() for part in (f"--data.{key}", value)]
    done = prepare(
        *inputs,
        "--output",
        tmp / name,
        "--data.tokenizer",
        tokenizer,
        "--data.records",
        form,
        "--data.validation",
        validation,
        *options,
        "--json",
        ranks=ranks,
    )
    return json.loads(done.stdout)["records"]


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def drawn_samples(count, seed):
    """Tokens, and which of them count; each has one that does behind the first."""
    rng = random.Random(seed)
    samples = []
    for _ in range(count):
        ids = [rng.randrange(250) for _ in range(rng.randrange(2, 40))]
        mask = [rng.randrange(2) for _ in ids]
        mask[-1] = 1
        samples.append((ids, mask))
    return samples


def labelled(ids, mask):
    return [token if counts else IGNORED for token, counts in zip(ids, mask)]


def as_documents(samples):
    return [(ids, [0] + mask[1:]) for ids, mask in samples]


def test_ids_labels_and_padding_become_tokens_and_masks_from_every_kind_of_file(tmp):
    samples = drawn_samples(500, 1)
    expected = as_documents(samples)
    rng = random.Random(2)
    aligned = [{"input_ids": ids, "labels": labelled(ids, mask), "note": None} for ids, mask in samples]
    prepared(tmp, write_lines(tmp / "aligned.jsonl", aligned), name="aligned")
    assert masked_documents(tmp / "aligned") == expected and manifest(tmp / "aligned")["version"] == 3
    shifted = [{"input_ids": ids, "labels": labelled(ids[1:] + [0], mask[1:] + [0])} for ids, mask in samples]
    prepared(tmp, write_lines(tmp / "shifted.jsonl", shifted), name="shifted", labels="shifted")
    assert masked_documents(tmp / "shifted") == expected
    fed = [{"input_ids": ids[:-1], "labels": labelled(ids[1:], mask[1:])} for ids, mask in samples]  # as a model is fed
    prepared(tmp, write_lines(tmp / "fed.jsonl", fed), name="fed", labels="shifted")
    assert masked_documents(tmp / "fed") == expected
    padded = []
    for ids, mask in samples:
        front, back = rng.randrange(4), rng.randrange(4)
        padded.append(
            {
                "input_ids": [0] * front + ids + [9] * back,
                "labels": [IGNORED] * front + labelled(ids, mask) + [9] * back,
                "attention_mask": [0] * front + [1] * len(ids) + [0] * back,
            }
        )
    (tmp / "padded.json").write_text(json.dumps(padded, indent=1))
    prepared(tmp, tmp / "padded.json", name="padded")
    assert masked_documents(tmp / "padded") == expected
    with open(tmp / "spelled.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["input_ids", "labels"])
        writer.writeheader()
        writer.writerows({key: json.dumps(record[key]) for key in ("input_ids", "labels")} for record in aligned)
    prepared(tmp, tmp / "spelled.csv", name="spelled")
    assert masked_documents(tmp / "spelled") == expected
    counts = prepared(
        tmp, write_lines(tmp / "plain.jsonl", [{"input_ids": ids, "labels": None} for ids, _ in samples]), name="plain"
    )
    assert masked_documents(tmp / "plain") == [(ids, [0] + [1] * (len(ids) - 1)) for ids, _ in samples]
    tokens = sum(len(ids) for ids, _ in samples)
    assert (
        counts["samples"] == counts["kept_records"] == 500
        and counts["tokens"] == tokens
        and counts["trained_tokens"] == tokens - 500
    ), counts


def test_columns_of_tables_are_records(tmp):
    pyarrow = needs_tables()
    import pyarrow.parquet

    samples = drawn_samples(700, 3)
    table = pyarrow.table(
        {
            "input_ids": pyarrow.array([ids for ids, _ in samples], pyarrow.list_(pyarrow.int32())),
            "labels": pyarrow.array([labelled(*sample) for sample in samples], pyarrow.large_list(pyarrow.int64())),
            "attention_mask": pyarrow.array([[1] * len(ids) for ids, _ in samples], pyarrow.list_(pyarrow.int8())),
        }
    )
    pyarrow.parquet.write_table(table, tmp / "a.parquet", row_group_size=90)
    with pyarrow.OSFile(str(tmp / "b.arrow"), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=60)
    for name in "a.parquet", "b.arrow":
        prepared(tmp, tmp / name, name=f"of-{name}", ranks=2)
        assert masked_documents(tmp / f"of-{name}") == as_documents(samples), name


def test_any_ranks_and_threads_write_the_same_bytes_and_a_tail_may_cut_any_document(tmp):
    samples = drawn_samples(12000, 4)  # several blocks
    source = write_lines(tmp / "in.jsonl", [{"input_ids": ids, "labels": labelled(ids, mask)} for ids, mask in samples])
    stream = [pair for ids, mask in as_documents(samples) for pair in zip(ids, mask)]
    for validation in "tail:0.3217", "hash:0.25":
        digests = set()
        for ranks, threads in (None, 1), (None, 3), (2, 2), (3, 1):
            folder = tmp / f"out-{ranks}-{threads}-{validation[:4]}"
            run(
                "prepare-data",
                source,
                "--output",
                folder,
                "--data.tokenizer",
                "bytes",
                "--data.records",
                "tokenized",
                "--data.validation",
                validation,
                "--data.shard_tokens",
                50000,
                "--threads",
                threads,
                ranks=ranks,
            )
            digests.add(digest(folder))
        assert len(digests) == 1, validation
        splits = [masked_documents(folder, split) for split in ("train", "validation")]
        if validation.startswith("tail"):
            both = [pair for split in splits for ids, mask in split for pair in zip(ids, mask)]
            assert both == stream and len(splits[0]) + len(splits[1]) == 12001  # one document is cut
        else:
            assert sorted(splits[0] + splits[1]) == sorted(as_documents(samples)) and 2700 < len(splits[1]) < 3300
        assert "all hashes match DATASET.json" in prepare("--verify", folder).stdout


def special_bpe(folder):
    """A folder with a tokenizer.json of a BPE that has an end-of-text token and one for beginnings."""
    tokenizers = needs("tokenizers")
    trained_bpe(folder, tokenizers, ["<|endoftext|>", "<s>"])
    made = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<|endoftext|>", "<s>"])
    for name in "vocab.json", "merges.txt":
        (folder / name).unlink()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": {"content": "<s>"},
                "eos_token": "<|endoftext|>",
            }
        )
    )
    return made


def drawn_prompts(count, seed):
    rng = random.Random(seed)
    words = sample_text().split()[:400]
    text = lambda: " ".join(rng.choice(words) for _ in range(rng.randrange(1, 12)))
    borders = ["", " ", "\n", "\n\n", "<|endoftext|>", "th", "é"]
    return [(text() + rng.choice(borders), rng.choice(["", " ", "\n", "e"]) + text()) for _ in range(count)]


def expected_pairs(made, pairs):
    """Ids and mask of each prompt and its completion by the tokenizers library, and how often their border is within a token."""
    end = made.token_to_id("<|endoftext|>")
    expected, apart = [], 0
    for prompt, completion in pairs:
        head, whole = made.encode(prompt).ids, made.encode(prompt + completion).ids
        if whole[: len(head)] != head:  # where TRL warns
            apart += 1
            whole = head + made.encode(completion).ids
        expected.append((whole + [end], [0] * len(head) + [1] * (len(whole) - len(head) + 1)))
    return expected, apart


def test_prompts_and_completions_have_the_ids_and_masks_that_trl_gives_them(tmp):
    made = special_bpe(tmp / "bpe")
    end, begin = made.token_to_id("<|endoftext|>"), made.token_to_id("<s>")
    pairs = drawn_prompts(3000, 5)
    expected, apart = expected_pairs(made, pairs)
    source = write_lines(tmp / "in.jsonl", [{"question": prompt, "answer": completion} for prompt, completion in pairs])
    fields = {"form": "prompt", "tokenizer": tmp / "bpe", "prompt_field": "question", "completion_field": "answer"}
    counts = prepared(tmp, source, **fields)
    assert masked_documents(tmp / "data") == expected and counts["borders_apart"] == apart > 50, (counts, apart)
    counts = prepared(tmp, source, name="all", train_on="all", add_eos="false", add_bos="true", **fields)
    assert masked_documents(tmp / "all") == [([begin] + ids[:-1], [0] + [1] * (len(ids) - 1)) for ids, _ in expected]
    begun = write_lines(tmp / "begun.jsonl", [{"prompt": "<s>yes<s>", "completion": " no<|endoftext|>"}])
    prepared(tmp, begun, name="once", form="prompt", tokenizer=tmp / "bpe", add_bos="true")
    ((ids, _),) = masked_documents(tmp / "once")
    assert ids == made.encode("<s>yes<s> no<|endoftext|>").ids and ids.count(begin) == 2 and ids.count(end) == 1
    prepared(tmp, begun, name="text", form="prompt", tokenizer=tmp / "bpe", special_tokens="text")
    ((ids, _),) = masked_documents(tmp / "text")
    assert (
        ids[-1] == end
        and begin not in ids
        and end not in ids[:-1]
        and made.decode(ids[:-1]) == "<s>yes<s> no<|endoftext|>"
    )


USUAL = {
    "prompt_no_input": "### Instruction:\n{instruction}\n\n### Response:\n",
    "prompt_input": "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n",
}


def drawn_instructions(count, seed):
    """Records of Alpaca's form: some without an input, some with an empty one or null, and braces in their texts."""
    rng = random.Random(seed)
    made = []
    for number, (instruction, output) in enumerate(drawn_prompts(count, seed)):
        record = {"instruction": instruction + rng.choice(["", " {input}", " {instruction} {x}"]), "output": output}
        if number % 4 != 0:
            record["input"] = ["", "", None, f"{output[::-1]} {{instruction}}"][number % 4]
        made.append(record)
    return made


def instruction_pair(record, templates=USUAL):
    """The prompt of a record, as str.format makes it of the template, and its completion."""
    given = record.get("input") or ""
    template = templates["prompt_input" if given else "prompt_no_input"]
    return template.format(instruction=record["instruction"], input=given), record["output"]


def test_instructions_have_the_ids_and_masks_of_their_prompts_and_outputs(tmp):
    made = special_bpe(tmp / "bpe")
    instructions = drawn_instructions(2000, 6)
    expected, apart = expected_pairs(made, map(instruction_pair, instructions))
    source = write_lines(tmp / "in.jsonl", instructions)
    fields = {"form": "instruction", "tokenizer": tmp / "bpe"}
    counts = prepared(tmp, source, **fields, ranks=2)
    assert masked_documents(tmp / "data") == expected and counts["borders_apart"] == apart, (counts, apart)
    options = manifest(tmp / "data")["options"]
    assert {key: options[key] for key in ("prompt_template", "prompt_template_with_input", "input_field")} == {
        "prompt_template": USUAL["prompt_no_input"],
        "prompt_template_with_input": USUAL["prompt_input"],
        "input_field": "input",
    }, options
    own = {"prompt_no_input": "Q: {instruction} {{}} {{ x\nA:", "prompt_input": "{input}\n{instruction}{input}\nA:"}
    plain = {key: text.replace("{{", "{").replace("}}", "}") for key, text in own.items()}
    expected, _ = expected_pairs(made, [instruction_pair(record, own) for record in instructions])
    names = {"instruction": "task", "input": "context", "output": "reply"}
    source = write_lines(
        tmp / "named.jsonl",
        [{names[key]: record.get(key) for key in names} for record in instructions],
    )
    renamed = {f"{key}_field": name for key, name in names.items()}
    templates = {"prompt_template": plain["prompt_no_input"], "prompt_template_with_input": plain["prompt_input"]}
    prepared(tmp, source, name="own", **fields, **renamed, **templates)
    assert masked_documents(tmp / "own") == expected
    prepared(tmp, source, name="all", train_on="all", add_eos="false", **fields, **renamed, **templates)
    assert masked_documents(tmp / "all") == [(ids[:-1], [0] + [1] * (len(ids) - 2)) for ids, _ in expected]


def test_an_instruction_that_has_no_template_or_lacks_a_field_is_named(tmp):
    full = {"instruction": "a", "input": "b", "output": "c"}
    for number, (record, options, message) in enumerate(
        [
            ({"instruction": "a"}, [], "no field 'output'; it has instruction"),
            ({"output": "a"}, [], "no field 'instruction'; it has output"),
            ({**full, "input": 3}, [], "the field 'input' is not text"),
            ({**full, "output": None}, [], "the field 'output' is null"),
            ({"instruction": "a", "output": "c"}, ["--data.input_field", "input"], "no field 'input'"),
            (
                full,
                ["--data.prompt_template", "{instruction}"],
                "the record has an input, but only data.prompt_template",
            ),
            (
                {**full, "input": ""},
                ["--data.prompt_template_with_input", "{instruction}{input}"],
                "the record has no input, but only data.prompt_template_with_input is set",
            ),
        ]
    ):
        source = write_lines(tmp / f"in-{number}.jsonl", [record])
        done = prepare(source, "--output", tmp / "no", "--data.records", "instruction", *options, expect=3)
        assert f"in-{number}.jsonl:1: {message}" in done.stderr, (message, done.stderr)
    source = write_lines(tmp / "in.jsonl", [full])
    for option, text, message in [
        ("prompt_template", "no place", "data.prompt_template lacks {instruction}"),
        ("prompt_template", "{instruction} {input}", "data.prompt_template has {input}, but it is for records without"),
        ("prompt_template_with_input", "{instruction}", "data.prompt_template_with_input lacks {input}"),
        ("prompt_template", "{instruction}{output}", "data.prompt_template has {output}, but a template has only"),
    ]:
        done = prepare(
            source, "--output", tmp / "no", "--data.records", "instruction", f"--data.{option}", text, expect=2
        )
        assert message in done.stderr, (message, done.stderr)


def shaped(sample, longest, too_long, overlap, shortest, counts):
    """By definition: what a sample becomes; each token that counts does so once."""
    ids, mask = sample[0], [0] + sample[1][1:]
    if len(ids) < shortest:
        counts["too_short_records"] += 1
        return []
    is_long = len(ids) > longest
    if is_long and too_long == "drop":
        counts["too_long_records"] += 1
        return []
    parts = [(ids[:longest], mask[:longest])]
    if is_long and too_long == "split":
        while True:
            at = sum(len(part) for part, _ in parts) - overlap * (len(parts) - 1)
            if at >= len(ids):
                break
            begin = at - overlap
            context = max(overlap, 1)
            part = ids[begin : begin + longest]
            parts.append((part, ([0] * context + mask[begin + context : begin + longest])[: len(part)]))
    kept = [part for part in parts if any(part[1])]
    if not kept:
        counts["untrained_records"] += 1
        return []
    counts["untrained_parts"] += len(parts) - len(kept)
    if is_long:
        counts["truncated_records" if too_long == "truncate" else "split_records"] += 1
    return kept


def test_lengths_are_kept_to_and_every_token_that_counts_does_so_once(tmp):
    rng = random.Random(6)
    samples = drawn_samples(400, 7)
    for ids, mask in samples[::5]:
        mask[:] = [0] * len(ids) if rng.random() < 0.3 else [int(i < 3) for i in range(len(ids))]
    source = write_lines(tmp / "in.jsonl", [{"input_ids": ids, "labels": labelled(ids, mask)} for ids, mask in samples])
    names = [
        "too_long_records",
        "too_short_records",
        "untrained_records",
        "truncated_records",
        "split_records",
        "untrained_parts",
    ]
    for number, (longest, too_long, overlap, shortest) in enumerate(
        [(11, "drop", 0, 1), (11, "truncate", 0, 4), (7, "split", 0, 1), (7, "split", 3, 7), (20, "split", 19, 1)]
    ):
        options = {
            "max_length": longest,
            "too_long": too_long,
            "min_length": shortest,
            **({"overlap": overlap} if too_long == "split" else {}),
        }
        counts = dict.fromkeys(names, 0)
        parts = [shaped(sample, longest, too_long, overlap, shortest, counts) for sample in samples]
        told = prepared(tmp, source, name=f"data-{number}", **options)
        found = masked_documents(tmp / f"data-{number}")
        assert found == [part for made in parts for part in made], options
        assert {name: told[name] for name in names} == counts, (told, counts)
        assert (
            told["records"] == 400
            and told["kept_records"] == sum(1 for made in parts if made)
            and told["samples"] == len(found)
        )
        assert (
            told["trained_tokens"] == sum(sum(mask) for _, mask in found)
            and manifest(tmp / f"data-{number}")["inputs"]["records"] == told
        )
        if too_long == "split" and overlap > 0:
            all_of_them = sum(sum(mask[1:]) for ids, mask in samples if len(ids) >= shortest)
            assert told["trained_tokens"] == all_of_them, "no label is lost where parts overlap"
    parts_of_one = write_lines(tmp / "long.jsonl", [{"input_ids": [i % 250] * 3 + list(range(200))} for i in range(60)])
    prepared(tmp, parts_of_one, name="split", validation="hash:0.5", max_length=20, too_long="split", overlap=2)
    for split in "train", "validation":
        found = masked_documents(tmp / "split", split)
        assert len(found) % 12 == 0 and all(
            ids[0] != ids[1] or len(found[at + 11][0]) < 20 for at, (ids, _) in list(enumerate(found))[::12]
        ), "a record lies in one split"


def test_a_record_that_cannot_be_used_ends_the_job_with_its_place_or_is_left_out(tmp):
    good = {"input_ids": [1, 2, 3]}
    bad = [
        ({"input_ids": [1, 257]}, "input_ids[1] is 257, but the tokenizer has ids 0 to 256"),
        ({"input_ids": [-1, 2]}, "input_ids[0] is -1"),
        ({"input_ids": [1, 2, 3], "labels": [IGNORED, 2, 4]}, "labels[2] is 4, neither input_ids[2] = 3 nor -100"),
        ({"input_ids": [1, 2, 3], "labels": [1, 2]}, "labels has 2 elements, input_ids has 3"),
        ({"input_ids": 5}, "input_ids is not a list"),
        ({"input_ids": [1, 2.5]}, "input_ids[1] is not an integer: 2.5"),
        ({"input_ids": [1, 2], "attention_mask": [1, 2]}, "attention_mask[1] is 2, neither 0 nor 1"),
        ({"input_ids": [1, 2, 3], "attention_mask": [1, 0, 1]}, "attention_mask[1] is 0 between tokens"),
        ({"input_ids": "[1, 2"}, "the text of input_ids is not a list"),
        ({"ids": [1]}, "no field 'input_ids'; it has ids"),
    ]
    for number, (record, message) in enumerate(bad):
        source = write_lines(tmp / f"in-{number}.jsonl", [good, record, good])
        done = prepare(
            source, "--output", tmp / "refused", "--data.tokenizer", "bytes", "--data.records", "tokenized", expect=3
        )
        assert f"in-{number}.jsonl:2: {message}" in done.stderr and not (tmp / "refused").exists(), done.stderr
    source = write_lines(tmp / "all.jsonl", [good, *(record for record, _ in bad), good])
    done = prepare(
        source,
        "--output",
        tmp / "kept",
        "--data.tokenizer",
        "bytes",
        "--data.records",
        "tokenized",
        "--data.validation",
        "none",
        "--data.malformed",
        "skip",
    )
    assert masked_documents(tmp / "kept") == [([1, 2, 3], [0, 1, 1])] * 2
    assert f"left out {len(bad)} malformed documents" in done.stderr and "all.jsonl:4: labels[2] is 4" in done.stderr
    assert manifest(tmp / "kept")["inputs"]["malformed_documents"] == len(bad)
    wrong = write_lines(tmp / "prompt.jsonl", [{"prompt": "a", "completion": ["b"]}])
    assert (
        "prompt.jsonl:1: only one of 'prompt' and 'completion' is a list of messages"
        in prepare(wrong, "--output", tmp / "refused", "--data.records", "prompt", expect=3).stderr
    )


def test_characters_that_a_vocabulary_lacks_are_malformed_text_wherever_they_stand(tmp):
    (tmp / "known.txt").write_text("abc\n" * 50)
    prepare(
        tmp / "known.txt",
        "--output",
        tmp / "known",
        "--data.tokenizer",
        "chars",
        "--data.end_of_text",
        "<e>",
        "--data.validation",
        "none",
    )
    source = write_lines(tmp / "in.jsonl", [{"text": "ab"}, {"text": "aé"}, {"text": "ca"}])
    options = ["--data.tokenizer", tmp / "known/tokenizer", "--data.validation", "none"]
    done = prepare(source, "--output", tmp / "data", *options, expect=3)
    assert "in.jsonl:2: cannot tokenize 'é'" in done.stderr, done.stderr
    done = prepare(source, "--output", tmp / "data", *options, "--data.malformed", "skip")
    assert "left out 1 malformed document" in done.stderr and "in.jsonl:2: cannot tokenize" in done.stderr, done.stderr
    assert [len(document) for document in documents(tmp / "data", "train")] == [3, 2]  # and the end of the first


def test_of_a_name_given_twice_the_last_counts_as_python_reads_it(tmp):
    chat = '"messages": [{"role": "user", "role": "assistant", "content": "x", "content": "y"}]'
    (tmp / "chat.jinja").write_text(
        "{% for m in messages %}{% generation %}{{ m.role }}: {{ m.content }};{% endgeneration %}{% endfor %}"
    )
    template = {"chat_template": tmp / "chat.jinja"}
    for form, lines, more in [
        (
            "tokenized",
            [
                '{"input_ids": [1, 2], "labels": [1], "input_ids": [3, 4, 5], "labels": [-100, 4, 5]}',
                '{"labels": null, "labels": [7, 8], "input_ids": [7, 8]}',
            ],
            {},
        ),
        ("prompt", ['{"prompt": "a", "completion": 1, "prompt": "b", "completion": "c"}'], {}),
        ("messages", [f'{{"messages": [], {chat}}}', f"{{{chat}, {chat.replace('y', 'z')}}}"], template),
    ]:
        made = []
        for name, texts in [("twice", lines), ("once", [json.dumps(json.loads(line)) for line in lines])]:
            (tmp / f"{form} {name}.jsonl").write_text("\n".join(texts))
            prepared(tmp, tmp / f"{form} {name}.jsonl", name=f"{form} {name}", form=form, **more)
            made.append(masked_documents(tmp / f"{form} {name}"))
        assert made[0] == made[1] and made[0], (form, made)


def test_options_that_would_have_no_effect_and_inputs_without_records_are_refused(tmp):
    (tmp / "a.txt").write_text("text")
    source = write_lines(tmp / "a.jsonl", [{"input_ids": [1, 2]}])
    refuse = lambda *options, expect=2: prepare(*options, "--output", tmp / "refused", expect=expect).stderr
    assert "a.txt holds one text, not records" in refuse(tmp / "a.txt", "--data.records", "prompt")
    for option, value, needed in [
        ("labels", "shifted", "tokenized"),
        ("max_length", 5, "tokenized or prompt or instruction or messages"),
        ("train_on", "all", "prompt or instruction or messages"),
        ("add_bos", "true", "tokenized or prompt or instruction or messages"),
        ("input_field", "x", "instruction"),
        ("prompt_template", "{instruction}", "instruction"),
    ]:
        assert f"data.{option} has no effect unless data.records is {needed}" in refuse(
            source, f"--data.{option}", value
        )
    tokenized = ["--data.records", "tokenized"]
    assert "data.overlap has no effect unless data.too_long is split" in refuse(
        source, *tokenized, "--data.max_length", 5, "--data.overlap", 1
    )
    assert "data.too_long has no effect without data.max_length" in refuse(
        source, *tokenized, "--data.too_long", "split"
    )
    assert "data.overlap 5 must be below data.max_length 5" in refuse(
        source, *tokenized, "--data.max_length", 5, "--data.too_long", "split", "--data.overlap", 5
    )
    assert "data.text_field has no effect" in refuse(source, *tokenized, "--data.text_field", "x")
    assert "data.tokenizer chars needs data.records text" in refuse(source, *tokenized, "--data.tokenizer", "chars")
    assert "the tokenizer names no bos_token" in refuse(source, *tokenized, "--data.add_bos", "true")
    assert refuse(source, *tokenized, "--data.validation", "tail:0.9", expect=3)
