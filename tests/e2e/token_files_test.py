"""Training on token files of other programs where they lie: the run is, bit for bit, the one on the same tokens in our shards."""

import json

from lockstep_testing import GPT2_TINY, needs, records, run, sample_text, write_config
from token_file_writers import flat, write_mds, write_megatron


def documents_of(dataset, split):
    """The documents of a split of our shards as lists of tokens, by h5py."""
    h5py = needs("h5py")
    tokens, starts = [], []
    for path in sorted((dataset / split).glob("tokens-*.h5")):
        with h5py.File(path) as file:
            starts += (file["documents"][:] + len(tokens)).tolist()
            tokens += file["tokens"][:].tolist()
    return [tokens[a:b] for a, b in zip(starts, starts[1:] + [len(tokens)])]


def test_a_run_on_token_files_in_place_is_the_run_on_our_shards_to_the_bit(tmp):
    np = needs("numpy")
    lines = [line for line in sample_text().splitlines() if len(line) > 2]
    (tmp / "docs.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    run(
        "prepare-data",
        tmp / "docs.jsonl",
        "--output",
        tmp / "own",
        "--data.tokenizer",
        "bytes",
        "--data.validation",
        "hash:0.1",
        "--data.shard_tokens",
        3000,
    )
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=2, n_head=2))
    splits = {split: documents_of(tmp / "own", split) for split in ("train", "validation")}
    inputs = {"megatron": [], "nanogpt": ["--format", "nanogpt"], "mds": []}
    for split, documents in splits.items():
        write_megatron(tmp / f"corpus-{split}", documents, "int32")
        np.array(flat(documents), "<u2").tofile(tmp / f"{split}.bin")
        inputs["megatron"].append(tmp / f"corpus-{split}.idx")
        inputs["nanogpt"].append(tmp / f"{split}.bin")
        write_mds(tmp / "mds" / split, documents, "ndarray:uint16")
        inputs["mds"].append(tmp / "mds" / split)
    for name, words in inputs.items():
        pattern = {"megatron": "corpus-validation.bin", "nanogpt": "validation.bin", "mds": "*/validation/*"}[name]
        run(
            "prepare-data",
            *words,
            "--output",
            tmp / f"set-{name}",
            "--data.tokenizer",
            "bytes",
            "--data.validation_files",
            pattern,
            "--data.shard_tokens",
            1111,
        )

    def trained(dataset, ranks, packing):
        folder = tmp / f"{dataset}-{ranks}-{packing}"
        settings = {
            "model.config": tmp / "model",
            "data.path": tmp / dataset,
            "train.run_dir": folder,
            "data.sequence_length": 48,
            "data.packing": packing,
            "train.max_steps": 6,
            "train.global_batch": 6,
            "train.micro_batch": 2,
            "log.every": 1,
            "eval.every": 3,
            "schedule.name": "constant",
            "optimizer.lr": 1e-3,
            "log.tensorboard": "false",
            "data.verify": "start",
        }
        run(
            "train",
            *(part for key, value in settings.items() if value is not None for part in (f"--{key}", str(value))),
            ranks=ranks,
        )
        steps = [(record["loss"], record["grad_norm"], record["tokens"]) for record in records(folder, "step")]
        assert len(steps) == 6
        return steps, [record["loss"] for record in records(folder, "eval")]

    for ranks, packing in [(1, None), (2, "best_fit"), (3, None), (3, "best_fit")]:
        expected = trained("own", ranks, packing)
        for dataset in inputs if ranks < 3 else ["mds"]:
            assert trained(f"set-{dataset}", ranks, packing) == expected, (dataset, ranks, packing)


def test_a_token_file_that_changes_is_refused_by_name_before_a_step_or_a_checkpoint_rests_on_it(tmp):
    np = needs("numpy")
    np.array([ord(c) for c in sample_text() if ord(c) < 128], "<u2").tofile(tmp / "train.bin")
    run(
        "prepare-data",
        tmp / "train.bin",
        "--format",
        "nanogpt",
        "--data.tokenizer",
        "bytes",
        "--output",
        tmp / "data",
        "--data.validation",
        "none",
    )
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=2, n_head=2))
    arguments = [
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        48,
        "--train.max_steps",
        3,
        "--train.run_dir",
        tmp / "run",
        "--train.global_batch",
        4,
    ]
    sound = (tmp / "train.bin").read_bytes()
    (tmp / "train.bin").write_bytes(sound[:-2])
    done = run("train", *arguments, ranks=2, expect=3)
    assert f"train.bin has {len(sound) - 2} bytes, but DATASET.json says {len(sound)}" in done.stderr, done.stderr
    (tmp / "train.bin").write_bytes(b"a\0" + sound[2:] if sound[:2] != b"a\0" else b"b\0" + sound[2:])
    done = run("train", *arguments, ranks=2, expect=3)
    assert "train.bin is damaged: its hash is" in done.stderr, done.stderr
