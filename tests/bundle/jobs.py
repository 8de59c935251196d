"""What the scripts of stages share: how they run the programs of the bundle, and how they tell their claims and figures."""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time

BUNDLE = pathlib.Path(__file__).resolve().parent
WORK = pathlib.Path(os.environ["LOCKSTEP_BUNDLE_WORK"])
PROGRAMS = json.loads(os.environ["LOCKSTEP_BUNDLE_PROGRAMS"])  # the environment of programs
DEVICE = os.environ["LOCKSTEP_BUNDLE_DEVICE"]  # gpu, fake, cpu or none
MACHINE = json.loads(os.environ["LOCKSTEP_BUNDLE_MACHINE"])
END = time.monotonic() + float(os.environ["LOCKSTEP_BUNDLE_SECONDS"])
PATIENCE = float(os.environ["LOCKSTEP_BUNDLE_PATIENCE"])  # times as slow as a machine may be
TOKENS = BUNDLE / "data/tokens"

GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "vocab_size": 257,
    "n_positions": 128,
    "n_embd": 96,
    "n_layer": 3,
    "n_head": 3,
    "n_inner": None,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
    "bos_token_id": 256,
    "eos_token_id": 256,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 257,
    "hidden_size": 96,
    "intermediate_size": 208,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "initializer_range": 0.02,
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "bos_token_id": 256,
    "eos_token_id": 256,
}
QWEN3 = {
    **LLAMA,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 24,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "use_sliding_window": False,
    "sliding_window": None,
    "max_window_layers": 3,
    "tie_word_embeddings": True,
}
MIXTRAL = {
    **LLAMA,
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "router_aux_loss_coef": 0.01,
}
FAMILIES = {"gpt2": GPT2, "llama": LLAMA, "qwen3": QWEN3, "mixtral": MIXTRAL}
LENGTH, SAMPLES = 64, 8
SECONDS_OF_A_RUN = 4  # that a stage must have left to start a program
AT_ONCE = max(1, min(4, len(os.sched_getaffinity(0)) // 4))  # programs
RUN = {  # options of a small run
    "data.path": TOKENS,
    "data.tokenizer": "bytes",
    "data.sequence_length": LENGTH,
    "optimizer.lr": 1e-3,
    "optimizer.clip_norm": 1.0,
    "schedule.name": "constant",
    "train.global_batch": SAMPLES,
    "train.max_steps": 4,
    "train.threads": 1,
    "eval.at_end": "false",
    "log.every": 1,
    "log.tensorboard": "false",
    "log.records": "file",
    "checkpoint.background": "false",
}


class Skip(Exception):
    """A claim cannot be tried here; the text says why."""


class Wrong(Exception):
    """A claim does not hold; the text says why."""


def tell(**entry):
    with open(os.environ["LOCKSTEP_BUNDLE_CLAIMS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def figure(name, **values):
    tell(figure=name, **{key: round(value, 4) if isinstance(value, float) else value for key, value in values.items()})


failed = []


@contextlib.contextmanager
def claim(text):
    """The claim passes if its body ends, fails if that raises, and is skipped by Skip."""
    try:
        yield
        tell(claim=text, result="passed")
    except Skip as reason:
        tell(claim=text, result="skipped", reason=str(reason))
    except Exception as error:
        failed.append(text)
        kind = "" if isinstance(error, Wrong) else f"{type(error).__name__}: "
        tell(claim=text, result="failed", reason=(kind + str(error))[-3000:])


def require(holds, reason):
    if not holds:
        raise Wrong(reason)


def end():
    """The end of each script of a stage."""
    sys.exit(1 if failed else 0)


def seconds_left():
    return END - time.monotonic()


@dataclasses.dataclass
class Done:
    """A program that has ended."""

    words: list
    code: int
    out: str
    err: str
    seconds: float

    def expect(self, code):
        last = "\n".join((self.err or self.out).strip().splitlines()[-6:])
        require(self.code == code, f"{pathlib.Path(self.words[0]).name} returned {self.code}, expected {code}: {last}")
        return self


def environment(device="cpu", fake="", **more):
    """The variables of a program; `fake` are parameters of the device of the tests."""
    settings = {**PROGRAMS, "TMPDIR": str(WORK), "HOME": str(WORK), "OMP_NUM_THREADS": "1", **more}
    if device == "device" and DEVICE == "fake":
        settings["LOCKSTEP_TEST_DEVICE"] = str(BUNDLE / "tests/fake-device.so")
        settings["LOCKSTEP_FAKE_DEVICE"] = fake or os.environ.get("LOCKSTEP_FAKE_DEVICE", "memory=2000000000")
    return settings


def launched(ranks, words):
    words = [str(word) for word in words]
    return [str(BUNDLE / "mpi/bin/mpirun"), "-n", str(ranks), "-quiet", *words] if ranks else words


def run(words, ranks=None, settings=None):
    """Runs a program to its end, or to the end of the stage's time. Without time left for it, the claim is skipped."""
    words = launched(ranks, words)
    if seconds_left() < SECONDS_OF_A_RUN:
        raise Skip("the stage has no time left for it")
    print("$", " ".join(words), flush=True)
    start = time.monotonic()
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", env=settings or environment(), cwd=WORK
    )
    print(done.stdout[-3000:], done.stderr[-6000:], f"[exit code {done.returncode}]", sep="\n", flush=True)
    return Done(words, done.returncode, done.stdout, done.stderr, time.monotonic() - start)


def side_by_side(calls):
    """The results of calls without arguments, by name, as many at once as the machine has processors for."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        started = {name: pool.submit(call) for name, call in calls.items()}
        return {name: one.result() for name, one in started.items()}


def words_of(options):
    return [str(word) for name, value in options.items() for word in (f"--{name}", value)]


def model_config(family):
    """The folder of a model's config.json."""
    folder = WORK / "models" / family
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(FAMILIES[family]))
    return folder


def train_words(folder, options, device="cpu"):
    """The words of a run of train in a new folder, on the CPU or on the device."""
    given = {**RUN, "train.run_dir": folder, "train.device": "cuda" if device == "device" else "cpu", **options}
    given = {name: value for name, value in given.items() if value is not None}
    return [BUNDLE / "bin/lockstep-train", *words_of(given)]


def train(folder, options, device="cpu", ranks=None, expect=0, fake="", **more):
    """A run of train; ranks share a device where a machine has fewer."""
    if ranks and device == "device" and "parallel.transport" not in options:
        options = {**options, "parallel.transport": "host"}
    done = run(train_words(folder, options, device), ranks, environment(device, fake, **more))
    return done if expect is None else done.expect(expect)


def records(folder, kind):
    lines = (pathlib.Path(folder) / "records.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def checkpoints(folder):
    return sorted((pathlib.Path(folder) / "checkpoints").glob("step-*"))


def numbers(folder):
    """Loss and norm of each step, and the digest of the last state."""
    told = [(record["step"], record["loss"], record["grad_norm"]) for record in records(folder, "step")]
    return told, json.loads((checkpoints(folder)[-1] / "MANIFEST.json").read_text())["state_digest"]
