"""Training on records: the loss is that of transformers over the labels that the records name, in windows and packed, on any ranks."""

import json
import random

from lockstep_testing import GPT2_TINY, needs, records, run
from parity_test import random_model

torch = needs("torch")

LENGTH, SAMPLES, STEPS, LR = 32, 4, 3, 0.01


def drawn_records(count, seed):
    """Tokens and labels, aligned."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        ids = [rng.randrange(250) for _ in range(rng.randrange(3, LENGTH))]
        labels = [token if rng.random() < 0.4 else -100 for token in ids]
        labels[-1] = ids[-1]
        made.append((ids, labels))
    return made


def loss_of(model, rows):
    """The mean over all labels of the rows; each row is (tokens, labels at their own tokens)."""
    total, count = 0.0, 0
    for ids, labels in rows:
        logits = model(input_ids=torch.tensor([ids[:-1]])).logits[0]
        wanted = torch.tensor(labels[1:])
        total = total + torch.nn.functional.cross_entropy(logits, wanted, ignore_index=-100, reduction="sum")
        count += int((wanted != -100).sum())
    return total / count


def reference(model, steps):
    """Losses of these steps, by plain gradient descent in fp64."""
    model = model.double().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    losses = []
    for rows in steps:
        loss = loss_of(model, rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def in_windows(samples):
    """Rows of the stream: documents back to back, the first token of each no label."""
    ids = [token for sample, _ in samples for token in sample]
    labels = [label for _, sample in samples for label in [-100] + sample[1:]]
    rows = [(ids[at : at + LENGTH + 1], labels[at : at + LENGTH + 1]) for at in range(0, len(ids) - LENGTH, LENGTH)]
    return [rows[step * SAMPLES :][:SAMPLES] for step in range(STEPS)]


def each_alone(samples):
    return [samples[step * SAMPLES :][:SAMPLES] for step in range(STEPS)]


def next_fit(samples):
    rows, left = [[]], LENGTH
    for sample in samples:
        if len(sample[0]) - 1 > left:
            rows.append([])
            left = LENGTH
        rows[-1].append(sample)
        left -= len(sample[0]) - 1
    return [[sample for row in rows[step * SAMPLES :][:SAMPLES] for sample in row] for step in range(STEPS)]


def train_output(tmp, packing, *switches, name=None, ranks=None, length=LENGTH, datasets=None):
    data = ["--data.path", tmp / "data"] if datasets is None else ["--data.datasets", json.dumps(datasets)]
    return run(
        "train",
        "--model.path",
        tmp / "model",
        *data,
        "--data.sequence_length",
        length,
        "--data.shuffle",
        "false",
        "--data.packing",
        packing,
        "--precision.dtype",
        "fp64",
        "--optimizer.name",
        "sgd",
        "--optimizer.lr",
        LR,
        "--optimizer.weight_decay",
        0,
        "--optimizer.clip_norm",
        "null",
        "--schedule.name",
        "constant",
        "--train.run_dir",
        tmp / (name or packing),
        "--train.max_steps",
        STEPS,
        "--train.global_batch",
        SAMPLES,
        "--train.micro_batch",
        2,
        "--log.every",
        1,
        *switches,
        ranks=ranks,
    )


def train(tmp, name, packing, ranks, *switches):
    train_output(tmp, packing, *switches, name=name, ranks=ranks)
    return records(tmp / name, "step")


def test_losses_over_records_are_those_of_transformers_in_windows_and_packed_on_any_ranks(tmp):
    samples = drawn_records(60, 1)
    (tmp / "in.jsonl").write_text(
        "".join(json.dumps({"input_ids": ids, "labels": labels}) + "\n" for ids, labels in samples)
    )
    run(
        "prepare-data",
        tmp / "in.jsonl",
        "--output",
        tmp / "data",
        "--data.tokenizer",
        "bytes",
        "--data.records",
        "tokenized",
        "--data.validation",
        "none",
    )
    random_model(tmp / "model", GPT2_TINY)
    for packing, steps, numbers_of_ranks in [
        ("windows", in_windows(samples), [1, 2, 3]),
        ("none", each_alone(samples), [2]),
        ("sequential", next_fit(samples), [1, 3]),
    ]:
        expected = reference(random_model(tmp / "again", GPT2_TINY), steps)
        counted = [sum(label != -100 for _, labels in rows for label in labels[1:]) for rows in steps]
        for ranks in numbers_of_ranks:
            steps_of_run = train(tmp, f"{packing}-{ranks}", packing, ranks)
            losses = [record["loss"] for record in steps_of_run]
            assert all(abs(a - b) < 1e-10 * abs(b) for a, b in zip(losses, expected, strict=True)), (
                packing,
                ranks,
                losses,
                expected,
            )
            assert sum(counted) == steps_of_run[-1]["tokens"] - steps_of_run[0]["tokens"] + counted[0], (
                packing,
                counted,
                steps_of_run,
            )


def test_a_start_and_a_plan_say_which_share_of_the_labels_counts_and_how_many_documents_are_cut(tmp):
    samples = drawn_records(300, 7)
    longest = 28
    (tmp / "in.jsonl").write_text(
        "".join(json.dumps({"input_ids": ids, "labels": labels}) + "\n" for ids, labels in samples)
    )
    run(
        "prepare-data",
        tmp / "in.jsonl",
        "--output",
        tmp / "data",
        "--data.tokenizer",
        "bytes",
        "--data.records",
        "tokenized",
        "--data.validation",
        "none",
        "--data.max_length",
        longest,
        "--data.too_long",
        "truncate",
    )
    random_model(tmp / "model", GPT2_TINY)
    kept = [(ids[:longest], labels[1:longest]) for ids, labels in samples]
    kept = [(ids, labels) for ids, labels in kept if any(label != -100 for label in labels)]
    tokens = sum(len(ids) for ids, _ in kept)
    trained = sum(label != -100 for _, labels in kept for label in labels)
    truncated = sum(len(ids) > longest and any(label != -100 for label in labels[1:longest]) for ids, labels in samples)
    length, windows, at = 20, 0, 0
    for ids, _ in kept:  # the label at place p is in window (p - 1) // length
        windows += len({(place - 1) // length for place in range(at + 1, at + len(ids))}) > 1
        at += len(ids)
    rows = sum(len(ids) - 1 > length for ids, _ in kept)
    assert 0 < rows < windows and truncated > 5, (rows, windows, truncated)
    for packing, more, cut in [
        ("windows", [], windows),
        ("none", ["--data.long_documents", "truncate"], rows),
        ("best_fit", ["--data.long_documents", "drop"], rows),
    ]:
        plan = json.loads(train_output(tmp, packing, *more, "--dry-run", "--json", length=length).stdout)["data"]
        assert abs(plan["label_share"] - trained / tokens) < 1e-12 and plan["cut_documents"] == cut, (packing, plan)
        started = train_output(tmp, packing, *more, ranks=2, length=length)
        [facts] = [record["labels"] for record in records(tmp / packing, "run")]
        assert facts == {
            "tokens": tokens,
            "trained_tokens": trained,
            "share": plan["label_share"],
            "documents": len(kept),
            "cut_documents": cut,
            "cut_records": truncated,
            "left_out_records": 0,
        }, (packing, facts)
        assert f"{100 * trained / tokens:.2f} % of the tokens count" in started.stderr, started.stderr
        assert f"{cut} of {len(kept)} documents by " in started.stderr, started.stderr
    named = [{"path": str(tmp / "data"), "name": "answers"}, {"path": "dummy", "samples": 40}]
    plan = json.loads(train_output(tmp, "windows", "--dry-run", "--json", datasets=named).stdout)["data"]
    assert plan["label_share_answers"] == trained / tokens and "label_share_dummy" not in plan, plan


MARKED = """{% for m in messages %}{{ m.role[:1] }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"""


def test_losses_over_conversations_are_those_of_transformers_with_what_the_assistant_says_as_labels(tmp):
    transformers = needs("transformers")
    dice = random.Random(3)
    said = lambda: dice.choice(["é", "a", "no"]) + " " * dice.randrange(2) + dice.choice("abc")  # noqa: E731
    chats = [
        [{"role": role, "content": said()} for role in ("user", "assistant") * dice.randrange(1, 3)] for _ in range(60)
    ]
    (tmp / "in.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    (tmp / "chat.jinja").write_text(MARKED)
    run(
        "prepare-data",
        tmp / "in.jsonl",
        "--output",
        tmp / "data",
        "--data.tokenizer",
        "bytes",
        "--data.records",
        "messages",
        "--data.chat_template",
        tmp / "chat.jinja",
        "--data.validation",
        "none",
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp / "data/tokenizer/tokenizer.json"), eos_token="<|endoftext|>"
    )
    samples = []
    for chat in chats:
        told = tokenizer.apply_chat_template(
            chat, chat_template=MARKED, return_dict=True, return_assistant_tokens_mask=True
        )
        samples.append(
            (
                told["input_ids"],
                [token if counts else -100 for token, counts in zip(told["input_ids"], told["assistant_masks"])],
            )
        )
    assert all(len(ids) <= LENGTH for ids, _ in samples)
    random_model(tmp / "model", GPT2_TINY)
    for packing, steps, ranks in [
        ("windows", in_windows(samples), 1),
        ("none", each_alone(samples), 2),
        ("sequential", next_fit(samples), 3),
    ]:
        expected = reference(random_model(tmp / "again", GPT2_TINY), steps)
        losses = [record["loss"] for record in train(tmp, packing, packing, ranks, "--checkpoint.every", STEPS)]
        assert all(abs(a - b) < 1e-10 * abs(b) for a, b in zip(losses, expected, strict=True)), (
            packing,
            losses,
            expected,
        )
    run("finalize-quantize", tmp / "windows", "--output", tmp / "exported")
    exported = transformers.AutoTokenizer.from_pretrained(tmp / "exported")
    assert exported.apply_chat_template(chats[0])["input_ids"] == samples[0][0], "the model brings the template along"


def test_evaluation_counts_the_labels_of_records_and_a_run_on_them_is_exported(tmp):
    transformers = needs("transformers")
    samples = drawn_records(80, 2)
    (tmp / "in.jsonl").write_text(
        "".join(json.dumps({"input_ids": ids, "labels": labels}) + "\n" for ids, labels in samples)
    )
    run(
        "prepare-data",
        tmp / "in.jsonl",
        "--output",
        tmp / "data",
        "--data.tokenizer",
        "bytes",
        "--data.records",
        "tokenized",
        "--data.validation",
        "hash:0.3",
    )
    model = random_model(tmp / "model", GPT2_TINY)
    train(tmp, "run", "best_fit", 2, "--eval.every", 1, "--checkpoint.every", 1)
    done = run(
        "train",
        "--model.path",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        LENGTH,
        "--data.packing",
        "none",
        "--train.run_dir",
        tmp / "eval",
        "--precision.dtype",
        "fp64",
        "--train.max_steps",
        1,
        "--train.global_batch",
        SAMPLES,
        "--eval-only",
        ranks=2,
    )
    h5py = needs("h5py")
    with h5py.File(tmp / "data/validation/tokens-00000.h5") as file:
        tokens, mask, starts = (file[name][:].tolist() for name in ("tokens", "mask", "documents"))
    rows = [
        (tokens[a:b], [token if counts else -100 for token, counts in zip(tokens[a:b], mask[a:b])])
        for a, b in zip(starts, starts[1:] + [len(tokens)])
    ]
    with torch.no_grad():
        expected = loss_of(model.double().eval(), rows).item()
    evaluation = json.loads(done.stdout)
    assert abs(evaluation["loss"] - expected) < 1e-10 * expected and evaluation["tokens"] == sum(mask), (
        evaluation,
        expected,
    )
    run("finalize-quantize", tmp / "run", "--output", tmp / "exported")
    exported = transformers.AutoModelForCausalLM.from_pretrained(tmp / "exported")
    assert exported.config.vocab_size == GPT2_TINY["vocab_size"]
