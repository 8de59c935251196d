"""The README's tour runs as it stands, from a folder like a clone's; what it promises is there afterwards."""

import json
import os
import re
import subprocess

from lockstep_testing import BUILD, PATIENCE_S, SOURCE, needs


def commands():
    tour = (SOURCE / "README.md").read_text().split("<!-- tour -->")[1].split("<!-- end of tour -->")[0]
    return [line for block in re.findall(r"```sh\n(.*?)```", tour, re.S) for line in block.splitlines() if line.strip()]


def clone_like(tmp):
    for name in ["README.md", "lib", "configs"]:
        (tmp / name).symlink_to(SOURCE / name)
    return tmp


def environment():
    settings = re.search(r"```sh\n(export OMPI.*?)```", (SOURCE / "README.md").read_text(), re.S).group(1)
    words = re.findall(r'([A-Za-z_]+)=("[^"]*"|\S+)', "\n".join(line.split("#")[0] for line in settings.splitlines()))
    found = {name: value.strip('"') for name, value in words if name != "PATH"}
    return dict(os.environ, **found, PATH=f"{BUILD / 'tools'}:{os.environ['PATH']}")


def test_every_command_of_the_tour_works_in_order(tmp):
    folder, settings = clone_like(tmp), environment()
    assert len(commands()) >= 10
    for command in commands():
        done = subprocess.run(
            ["sh", "-c", command], cwd=folder, env=settings, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    steps = [json.loads(line) for line in (folder / "tour/records.jsonl").read_text().splitlines()]
    assert any(record["kind"] == "step" and record["step"] == 40 for record in steps)


def test_the_exported_model_gives_transformers_the_same_loss(tmp):
    torch, transformers, numpy = needs("torch"), needs("transformers"), needs("numpy")
    from checkpoint_files import read_tensor, step_folders
    from lockstep_testing import records, token_stream

    folder, settings = clone_like(tmp), environment()
    for command in [
        *commands()[:2],
        "train configs/tour.yaml > records.jsonl",
        "finalize-quantize tour/run --recipe none --dtype fp32 --output tour/fp32",
        "finalize-quantize tour/run --recipe none --dtype bf16 --output tour/bf16",
    ]:
        subprocess.run(
            ["sh", "-c", command], cwd=folder, env=settings, check=True, capture_output=True, timeout=PATIENCE_S
        )
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "tour/fp32", dtype=torch.float32)
    stream = token_stream(folder / "tour/data", "validation")
    total = 0.0
    for begin in range(0, len(stream) - 1, 32):
        window = torch.from_numpy(stream[begin : begin + 33])[None]
        logits = model(input_ids=window[:, :-1]).logits[0]
        total += torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum").item()
    ours = records(folder / "tour/run", "eval")[-1]
    assert ours["tokens"] == len(stream) - 1
    theirs = total / (len(stream) - 1)
    assert abs(ours["loss"] - theirs) <= 1e-5 * theirs, (ours["loss"], theirs)
    # bf16: the export holds the trained weights rounded to nearest even, and transformers computes the same with them
    rounded = transformers.AutoModelForCausalLM.from_pretrained(folder / "tour/bf16", dtype=torch.float32)
    newest = step_folders(folder / "tour/run")[-1]
    for name, parameter in rounded.named_parameters():
        trained = torch.from_numpy(read_tensor(newest, "model", name))
        assert torch.equal(parameter, trained.to(torch.bfloat16).to(torch.float32)), name
        assert numpy.array_equal(model.get_parameter(name).detach().numpy(), trained.numpy()), name


def test_the_small_recipe_learns_shakespeare(tmp):
    from lockstep_testing import records, run, shared_data

    text = shared_data("tinyshakespeare.txt")
    run("prepare-data", text, "--output", tmp / "data", "--data.tokenizer", "chars", "--data.validation", "tail:0.1")
    run(
        "train",
        SOURCE / "configs/shakespeare-char.yaml",
        "--model.config",
        SOURCE / "configs/models/shakespeare-char.json",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        tmp / "run",
        "--train.max_steps",
        200,
        "--schedule.decay_steps",
        2000,
        "--eval.batches",
        40,
        "--sample.max_tokens",
        20,
    )
    assert records(tmp / "run", "eval")[-1]["loss"] < 2.75  # 4.17 is chance; nanoGPT's curve is near 2.5 here
