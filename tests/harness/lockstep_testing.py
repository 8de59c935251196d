"""What the Python tests share: where the programs are, how to run them on ranks, how to read what they wrote with other people's
libraries. Nothing here computes what a program computes."""

import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import unittest

import warm_starts

BUILD = pathlib.Path(os.environ["LOCKSTEP_BUILD"]).resolve()  # tests run programs in folders of their own
SOURCE = pathlib.Path(os.environ["LOCKSTEP_SOURCE"]).resolve()
DATA = SOURCE / "tests/data"  # files that earlier versions wrote
PATIENCE_S = 600  # for what takes a second on an idle machine: a loaded one may need any time


def campaign(test):
    """Marks a test for `make test-full` alone: a long one, or one that shows on more layouts what a shorter one shows."""
    test.campaign = True
    return test


def shortened(test):
    """Marks a test that takes a share() of its cases in `make test` and all of them in `make test-full`."""
    test.shortened = True
    return test


def all_cases():
    """Whether long tests try all their cases: in `make test-full`, which sets LOCKSTEP_TEST_ALL."""
    return bool(os.environ.get("LOCKSTEP_TEST_ALL"))


def share(cases, one_of):
    """Every `one_of`-th case, beginning with the first; all of them in `make test-full`."""
    return list(cases)[:: 1 if all_cases() else one_of]


def program(name):
    return str(BUILD / "tools" / name)


def needs(module):
    """The module, or a skip that says what is missing."""
    try:
        found = __import__(module)
    except ImportError as error:
        raise unittest.SkipTest(f"{module} is not installed (make setup-test): {error}")
    if module == "torch":  # beside other tests, threads that wait for each other awake take many times as long
        found.set_num_threads(1)
    return found


def is_configured(target):
    """Whether this build makes a target of that name. Where the files lie is for the programs to know."""
    targets = json.loads((BUILD / "meson-info/intro-targets.json").read_text())
    return any(known["name"] == target for known in targets)


def shared_data(name):
    """A file of the real data beside the project, or a skip."""
    for folder in [os.environ.get("LOCKSTEP_DATA"), SOURCE.parent / "shared" / "data"]:
        if folder and (pathlib.Path(folder) / name).exists():
            return pathlib.Path(folder) / name
    raise unittest.SkipTest(f"{name} is not there (set LOCKSTEP_DATA to the folder that holds it)")


def run(tool, *arguments, ranks=None, expect=0, timeout=PATIENCE_S, env=None, cwd=None, through=()):
    """Runs a tool, on `ranks` ranks if given, each of them `through` another command; returns the completed process with text output. Fails
    unless the exit code is `expect` (None: any)."""
    warm = warm_starts.server_for(BUILD, env) if tool == "train" and not through else None
    command = [*map(str, through), warm.train if warm else program(tool), *map(str, arguments)]
    if ranks is not None:
        command = [str(SOURCE / "tests/harness/mpirun.sh"), str(ranks), *command]
    settings = dict(os.environ, LOCKSTEP_TEST_TIMEOUT=str(timeout), **(warm.settings() if warm else {}), **(env or {}))
    with warm or contextlib.nullcontext():
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout + 30, env=settings, cwd=cwd)
    if expect is not None and done.returncode != expect:
        raise AssertionError(
            f"{' '.join(command)}\nreturned {done.returncode}, expected {expect}\n"
            f"--- stdout\n{done.stdout[-4000:]}\n--- stderr\n{done.stderr[-6000:]}"
        )
    return done


def on_hosts(*names):
    """Settings under which ranks believe to be on hosts with these names, in turn."""
    return {"LD_PRELOAD": str(BUILD / "tests/libhost_names.so"), "LOCKSTEP_TEST_HOSTS": " ".join(names)}


def run_command(*words, expect=0, timeout=PATIENCE_S):
    """Runs any command; returns the completed process with text output. Fails unless the exit code is `expect` (None: any)."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout)
    if expect is not None and done.returncode != expect:
        raise AssertionError(
            f"{words}\nreturned {done.returncode}, expected {expect}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
    return done


def records(run_dir, kind=None):
    """The whole records of a kind; a run that goes on, or was killed, may have half a line at the end."""
    lines = (pathlib.Path(run_dir) / "records.jsonl").read_text().split("\n")[:-1]
    found = [json.loads(line) for line in lines]
    return [record for record in found if kind is None or record["kind"] == kind]


def token_stream(dataset, split="train"):
    """All tokens of a split in order, read by h5py."""
    h5py = needs("h5py")
    numpy = needs("numpy")
    parts = []
    for path in sorted((pathlib.Path(dataset) / split).glob("tokens-*.h5")):
        with h5py.File(path) as file:
            parts.append(file["tokens"][:])
    return numpy.concatenate(parts).astype("int64")


def digest(folder):
    """Of every file's name and bytes."""
    state = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        state.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            state.update(path.read_bytes())
    return state.hexdigest()


def damage_shard(dataset, shard):
    """Changes one token of a shard to another one of the vocabulary, as no size or structure shows."""
    h5py = needs("h5py")
    with h5py.File(dataset / shard) as file:
        at = file["tokens"].id.get_offset() + 2 * 70
    with open(dataset / shard, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


GPT2_TINY = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "vocab_size": 257,
    "n_positions": 64,
    "n_embd": 48,
    "n_layer": 2,
    "n_head": 4,
    "n_inner": None,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
    "bos_token_id": 256,
    "eos_token_id": 256,
    "tie_word_embeddings": True,
}
LLAMA_TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 257,
    "hidden_size": 48,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 64,
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "bos_token_id": 256,
    "eos_token_id": 256,
}


def write_config(folder, config):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def prepare_dataset(text, folder, validation):
    """Prepares a dataset of bytes from a file or folder of documents. `validation` is data.validation: "none", "tail:0.1"."""
    return run("prepare-data", text, "--output", folder, "--data.tokenizer", "bytes", "--data.validation", validation)


def sample_text():
    """Real text that every checkout has: pages of the project as they were once, so that what tests measure on it stays."""
    return (SOURCE / "tests/data/text.txt").read_text()
