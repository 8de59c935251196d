"""checkpoint-reshard beyond the number of parts: other meshes, a part of the state, other types of weights, and what it refuses."""

import errno
import json
import shutil
from fractions import Fraction

from checkpoint_files import manifest_of, read_tensor, state_digest, step_folders, tensors_of
from layout_runs import options, prepare
from lockstep_testing import (
    BUILD,
    DATA,
    GPT2_TINY,
    LLAMA_TINY,
    campaign,
    needs,
    records,
    run,
    run_command,
    write_config,
)
from running_jobs import with_short_and_long_deadline

SHARED_KEYS = dict(
    LLAMA_TINY, hidden_size=24, intermediate_size=43, num_attention_heads=4, num_key_value_heads=2, head_dim=6
)

MIXTRAL = dict(
    LLAMA_TINY, architectures=["MixtralForCausalLM"], model_type="mixtral", num_local_experts=4, num_experts_per_tok=2
)


def saved(folder, step=5, ranks=3):
    run_command(BUILD / "tests/cli/checkpoint-job", folder / "run", ranks, step)
    return folder / "run" / "checkpoints" / f"step-{step:010d}"


def reshard(source, output, *arguments):
    return json.loads(run("checkpoint-reshard", source, "--output", output, *arguments, "--json").stdout)


def refusal(source, output, *arguments, expect=2):
    told = run("checkpoint-reshard", source, "--output", output, *arguments, expect=expect).stderr
    assert not output.exists(), told
    return told


def verified(checkpoint):
    return json.loads(run("checkpoint-inspect", "--verify=fingerprints", checkpoint, "--json").stdout)["sound"]


def laid_out(checkpoint):
    """What a checkpoint says of its ranks: the mesh, who has what alike, and the layout of each weight and moment."""
    manifest = manifest_of(checkpoint)
    shared = {c["key"]: (c["pattern"], c.get("equal_along")) for c in manifest["components"]}
    return (
        manifest["mesh"],
        shared,
        {(t["component"], t["name"]): t["layout"] for t in tensors_of(checkpoint) if t["name"] != "_values"},
    )


def check_is_as_a_job_writes_it(tmp, layouts, *more):
    """A run of one rank that is laid out on a mesh is as a run on that mesh lays its state out, and goes on there to the same end."""
    needs("h5py")
    layouts = [(ranks, target, [*layout, *more]) for ranks, target, layout in layouts]
    run("train", *options(tmp, tmp / "one", "--checkpoint.every", 2, *more, steps=2))
    [source] = step_folders(tmp / "one")
    for number, (ranks, target, layout) in enumerate(layouts):
        run("train", *options(tmp, tmp / f"job{number}", *layout, steps=1), ranks=ranks)
        there = tmp / f"there{number}"
        done = reshard(source, there, "--to", target)
        assert done["digest_before"] == done["digest_after"] == state_digest(source), done
        assert verified(there)
        for mine, of_job in zip(laid_out(there), laid_out(step_folders(tmp / f"job{number}")[-1])):
            assert mine == of_job, (target, mine, of_job)
        ends = set()
        for start, name in [(source, "old"), (there, "new")]:
            folder = tmp / f"{name}{number}"
            run("train", *options(tmp, folder, *layout, "--checkpoint.resume", start, steps=3), ranks=ranks)
            ends.add(state_digest(step_folders(folder)[-1]))
        assert len(ends) == 1, (target, ends)
        back = reshard(there, tmp / f"back{number}", "--to", "dp_replicate=1")
        assert back["digest_after"] == state_digest(source), back
        assert laid_out(tmp / f"back{number}") == laid_out(source), target


def test_a_gpt2_is_laid_out_as_a_job_lays_it_out(tmp):
    prepare(tmp, n_embd=24, n_head=6, n_inner=43, n_layer=3)
    check_is_as_a_job_writes_it(
        tmp,
        [
            (4, "tp=2,dp_shard=2", ["--parallel.tp", 2, "--parallel.dp_shard", 2]),
            (
                4,
                "dp_shard=2,pp=2,parts=2",
                ["--parallel.pp", 2, "--parallel.dp_shard", 2, "--parallel.micro_batches", 3],
            ),
        ],
    )


@campaign
def test_means_of_rows_and_columns_are_laid_out_as_a_job_lays_them_out(tmp):
    prepare(tmp, n_embd=24, n_head=6, n_inner=43, n_layer=3)
    check_is_as_a_job_writes_it(
        tmp,
        [
            (4, "tp=2,dp_shard=2", ["--parallel.tp", 2, "--parallel.dp_shard", 2]),
            (
                4,
                "dp_shard=2,pp=2,parts=2",
                ["--parallel.pp", 2, "--parallel.dp_shard", 2, "--parallel.micro_batches", 3],
            ),
        ],
        "--optimizer.name",
        "adafactor",
    )


@campaign
def test_a_llama_with_fewer_key_heads_than_ranks_is_laid_out_as_a_job_lays_it_out(tmp):
    prepare(tmp, n_embd=None)
    (tmp / "model/config.json").write_text(json.dumps(SHARED_KEYS))
    check_is_as_a_job_writes_it(
        tmp,
        [
            (4, '{"tp": 4}', ["--parallel.tp", 4]),
            (4, "dp_shard=2,ring=2", ["--parallel.dp_shard", 2, "--parallel.ring", 2]),
        ],
    )


def test_experts_that_ranks_shared_out_are_brought_together(tmp):
    needs("h5py")
    prepare(tmp, n_embd=None)
    (tmp / "model/config.json").write_text(json.dumps(MIXTRAL))
    run("train", *options(tmp, tmp / "many", "--parallel.ep", 2, "--parallel.dp_shard", 2, steps=1), ranks=2)
    run(
        "train",
        *options(tmp, tmp / "job", "--parallel.tp", 2, "--parallel.sequence_parallel", "true", steps=1),
        ranks=2,
    )
    [source], [job] = step_folders(tmp / "many"), step_folders(tmp / "job")
    done = reshard(source, tmp / "there", "--to", "tp=2")
    assert done["digest_after"] == state_digest(source) and laid_out(tmp / "there") == laid_out(job), done


def test_experts_are_shared_out_as_a_job_shares_them_out(tmp):
    prepare(tmp, n_embd=None)
    (tmp / "model/config.json").write_text(json.dumps(MIXTRAL))
    check_is_as_a_job_writes_it(
        tmp,
        [
            (2, "ep=2,dp_replicate=2", ["--parallel.ep", 2]),
            (
                4,
                "ep=2,dp_shard=2,tp=2,parts=3",
                [
                    "--parallel.ep",
                    2,
                    "--parallel.dp_shard",
                    2,
                    "--parallel.tp",
                    2,
                    "--parallel.sequence_parallel",
                    "true",
                ],
            ),
        ],
    )
    [source] = step_folders(tmp / "one")
    for target, said in [
        ("ep=3,dp_shard=3", "cannot distribute 4 experts over parallel.ep 3: 4 mod 3 is 1"),
        ("ep=2,dp_shard=3", "cannot distribute experts over ep=2: there are 3 ranks, and 3 mod 2 is 1"),
    ]:
        assert said in refusal(source, tmp / "no", "--to", target), target
    assert "dividing the model over ep needs its config.json" in refusal(
        saved(tmp), tmp / "no", "--to", "ep=2,dp_shard=2", "--skip", "rng"
    )


@campaign
def test_means_of_experts_are_shared_out_as_a_job_shares_them_out(tmp):
    prepare(tmp, n_embd=None)
    (tmp / "model/config.json").write_text(json.dumps(MIXTRAL))
    check_is_as_a_job_writes_it(
        tmp,
        [
            (
                4,
                "ep=2,dp_shard=2,tp=2,parts=3",
                [
                    "--parallel.ep",
                    2,
                    "--parallel.dp_shard",
                    2,
                    "--parallel.tp",
                    2,
                    "--parallel.sequence_parallel",
                    "true",
                ],
            )
        ],
        "--optimizer.name",
        "adafactor",
    )


def parts_of(checkpoint):
    return {path.relative_to(checkpoint).as_posix(): path.read_bytes() for path in checkpoint.rglob("*.h5")}


@campaign
def test_experts_far_from_each_other_are_laid_out_as_a_job_lays_them_out_bit_for_bit(tmp):
    needs("h5py")
    prepare(tmp, n_embd=None)
    (tmp / "model/config.json").write_text(json.dumps(MIXTRAL))
    (tmp / "far.yaml").write_text("preset: base.yaml\nparallel: {ep_outside: yes, dp_shard: auto}\n")
    (tmp / "base.yaml").write_text("parallel: {ep: 2, pp: 2, micro_batches: 3}\ncheckpoint: {ranks_per_file: 2}\n")
    for number, (ranks, targets, layout) in enumerate(
        [
            (
                4,
                ["ep=2,ep_outside=true,dp_shard=4,parts=2"],
                [
                    "--parallel.ep",
                    2,
                    "--parallel.dp_shard",
                    4,
                    "--parallel.ep_outside",
                    "true",
                    "--checkpoint.ranks_per_file",
                    2,
                ],
            ),
            (
                8,
                [
                    f"{tmp}/far.yaml,dp_shard=4,parts=4",
                    '{"pp": 2, "ep": 2, "ep_outside": true, "dp_shard": 4, "parts": 4}',
                ],
                ["--config", tmp / "far.yaml"],
            ),
        ]
    ):
        run("train", *options(tmp, tmp / f"job{number}", *layout, steps=1, micro_batch=1), ranks=ranks)
        [job] = step_folders(tmp / f"job{number}")
        one = tmp / f"one{number}"
        assert reshard(job, one, "--to", "dp_replicate=1")["digest_after"] == state_digest(job)
        for target in targets:
            there = tmp / f"there{number}"
            done = reshard(one, there, "--to", target)
            assert done["digest_after"] == state_digest(job) and laid_out(there) == laid_out(job), (target, done)
            assert parts_of(there) == parts_of(job), target
            reshard(there, tmp / "back", "--to", "dp_replicate=1")
            assert parts_of(tmp / "back") == parts_of(one), target
            for made in [there, tmp / "back"]:
                shutil.rmtree(made)
    reshard(tmp / "one0", tmp / "near", "--to", "ep=2,dp_shard=4")
    assert laid_out(tmp / "near") != laid_out(step_folders(tmp / "job0")[-1])


def test_what_of_a_configuration_no_sizes_of_axes_tell_is_refused(tmp):
    source, file = saved(tmp), tmp / "run.yaml"
    for text, words, said in [
        (
            "parallel: {tp: 2}",
            "",
            f"{file} leaves the size of dp_replicate to the number of ranks of the job: give it, as in {file},dp_replicate=4",
        ),
        ("parallel: {dp_shard: auto}", "", "leaves the size of dp_shard to the number of ranks"),
        (
            "parallel: {dp_replicate: 1, order: [tp, pp]}",
            "",
            "sets parallel.order, a layout that axis sizes cannot describe",
        ),
        ("parallel: {dp_replicate: 1, pp: 2, schedule: zbv}", "", "sets parallel.schedule"),
        (
            "parallel: {dp_replicate: 1, pp: 2, split_points: [layer.1], stages_per_rank: 2}",
            "",
            "sets parallel.stages_per_rank, parallel.split_points",
        ),
        (
            "parallel: {dp_shard: 4, reshard_after_forward: 2, cp_fsdp_mode: none}",
            "",
            "sets parallel.cp_fsdp_mode, parallel.reshard_after_forward",
        ),
        ("post_local_sgd: {start_step: 3}", "", "sets post_local_sgd.start_step"),
        ("parallel: {dp_replicate: 2, ep_outside: true}", "", "ep_outside has no effect: ep is 1"),
        ("parallel: {dp_replicate: 1, dp_shrad: 2}", "", f"{file} is not a train configuration: {file}:1: "),
        ("parallel: {dp_replicate: 2}", ",tp=2", "dividing the model over tp needs its config.json"),
    ]:
        file.write_text(text)
        told = refusal(source, tmp / "new", "--to", f"{file}{words}", "--skip", "rng")
        assert said in told, (text, told)
    assert f"{tmp}/none.yaml" in refusal(source, tmp / "new", "--to", f"{tmp}/none.yaml")
    file.write_text("parallel: {dp_shard: 2, zero: 1, sequence_parallel: null}")
    assert (
        reshard(source, tmp / "new", "--to", f"{file},dp_replicate=3", "--skip", "rng")["mesh"]
        == "dp_replicate 3 x dp_shard 2"
    )


def test_a_state_that_goes_over_several_meshes_and_back_is_the_same_state(tmp):
    needs("h5py")
    prepare(tmp, n_embd=None)
    (tmp / "model/config.json").write_text(json.dumps(dict(MIXTRAL, num_hidden_layers=3)))
    run("train", *options(tmp, tmp / "one", steps=1))
    [source] = step_folders(tmp / "one")
    at = source
    for number, target in enumerate(
        [
            "tp=2,dp_shard=2",
            "pp=3,ep=2,dp_shard=2",
            "ep=4,dp_shard=4,parts=3",
            "dp_replicate=2,ring=2,dp_shard=2,parts=2",
            "pp=2,tp=4",
            "parts=5",
            "dp_replicate=1",
        ]
    ):
        there = tmp / f"at{number}"
        done = reshard(at, there, "--to", target)
        assert done["digest_before"] == done["digest_after"] == state_digest(source) and verified(there), (target, done)
        at = there
    assert laid_out(at) == laid_out(source)
    first, last = files_of(source), files_of(at)
    assert first["INDEX.h5"] == last["INDEX.h5"] and first.keys() == last.keys()


def test_a_checkpoint_of_the_first_format_is_laid_out_on_a_mesh(tmp):
    done = reshard(DATA / "format-1/state", tmp / "new", "--to", "dp_shard=2,dp_replicate=2", "--skip", "rng")
    assert (
        done["digest_before"] == done["digest_after"]
        and done["mesh"] == "dp_replicate 2 x dp_shard 2"
        and verified(tmp / "new")
    ), done


def test_ranks_and_parts_of_a_mesh_are_planned_before_they_are_written(tmp):
    source = saved(tmp)
    told = run(
        "checkpoint-reshard",
        source,
        "--to",
        "dp_shard=4,parts=2",
        "--skip",
        "rng",
        "--output",
        tmp / "new",
        "--dry-run",
    ).stdout
    assert (
        "dp_shard 4: a rank holds" in told
        and "  rank 3  holds" in told
        and "peak memory" in told
        and "left out: rng" in told
    ), told
    plan = json.loads(
        run(
            "checkpoint-reshard",
            source,
            "--to",
            "dp_shard=4,parts=2",
            "--skip",
            "rng",
            "--output",
            tmp / "new",
            "--dry-run",
            "--json",
        ).stdout
    )
    assert not (tmp / "new").exists() and len(plan["ranks"]) == 4 and plan["peak_memory_bytes"] > 0, plan
    assert (
        sum(part["bytes"] for part in plan["parts"]) == sum(rank["writes"] for rank in plan["ranks"]) == plan["bytes"]
    ), plan
    done = reshard(source, tmp / "new", "--to", "dp_shard=4,parts=2", "--skip", "rng")
    assert done["bytes"] == plan["bytes"] and done["files"] == plan["files"] and done["mesh"] == "dp_shard 4", done
    assert sorted(path.relative_to(tmp / "new").as_posix() for path in (tmp / "new").rglob("part-*.h5")) == [
        part["path"] for part in plan["parts"]
    ]
    held = json.loads(run("checkpoint-inspect", "--who", tmp / "new", "wide.weight", "--json").stdout)["pieces"]
    assert [piece["ranks"] for piece in held] == [[0], [1], [2], [3]], held


def test_a_part_of_the_state_is_written_with_the_digest_of_that_part(tmp):
    source = saved(tmp)
    names = {f"{t['cell']}/{t['component']}/{t['name']}".lstrip("/") for t in tensors_of(source)}
    for number, (arguments, kept) in enumerate(
        [
            (["--only", "model"], {name for name in names if name.startswith("model/")}),
            (["--only", "lm_head"], {"model/wte.weight"}),
            (
                ["--only", "[model, optimizer]", "--skip", "_values$", "--skip", "codes"],
                {"model/wte.weight", "model/norm.weight", "model/wide.weight", "optimizer/exp_avg/wte.weight"},
            ),
            (["--skip", "rng"], {name for name in names if "rng" not in name}),
        ]
    ):
        new = tmp / f"new{number}"
        done = reshard(source, new, "--consolidate", *arguments)
        assert done["digest_before"] == done["digest_after"] == state_digest(new) and verified(new), done
        assert {f"{t['cell']}/{t['component']}/{t['name']}".lstrip("/") for t in tensors_of(new)} == kept, arguments
        differences = json.loads(run("checkpoint-inspect", "--diff", source, new, "--json", expect=1).stdout)[
            "differences"
        ]
        assert (
            "different content" not in json.dumps(differences) and {d["name"] for d in differences} == names - kept
        ), differences
        assert "left out" in done["notes"][0], done


def test_weights_alone_are_exported_as_with_the_rest_and_a_run_starts_with_them(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "one", steps=1))
    [source] = step_folders(tmp / "one")
    reshard(source, tmp / "weights", "--to", "dp_shard=3,pp=2,parts=2", "--only", "model")
    for checkpoint, name in [(source, "all"), (tmp / "weights", "alone")]:
        run("finalize-quantize", checkpoint, "--output", tmp / f"export-{name}")
    assert (tmp / "export-all/model.safetensors").read_bytes() == (tmp / "export-alone/model.safetensors").read_bytes()
    ends = []
    for name, start in [("weights", [tmp / "weights"]), ("part", [source, "--checkpoint.only", "model"])]:
        run("train", *options(tmp, tmp / name / "run", "--checkpoint.resume", *start, steps=2))
        assert records(tmp / name / "run", "run")[-1]["start_step"] == 0
        ends.append(state_digest(step_folders(tmp / name / "run")[-1]))
    assert ends[0] == ends[1]


def test_weights_are_cast_to_the_nearest_value_and_only_these(tmp):
    numpy = needs("numpy")
    needs("h5py")
    source = saved(tmp, step=1001)  # of which bf16 has every fourth
    done = reshard(source, tmp / "new", "--consolidate", "--cast", "bf16")
    assert (
        sorted(done["cast"]) == ["model/wide.weight", "model/wte.weight"]
        and done["digest_before"] != done["digest_after"]
    ), done
    assert verified(tmp / "new")
    want = (numpy.arange(37 * 8, dtype="float32") / 2 + 1001).view("uint32")
    want = ((want + 0x7FFF + (want >> 16 & 1)) & 0xFFFF0000).view("float32")
    assert (read_tensor(tmp / "new", "model", "wte.weight").flatten() == want).all()
    kept = {t["name"]: t["fingerprint"] for t in tensors_of(source) if t["name"] not in ["wte.weight", "wide.weight"]}
    assert kept == {
        t["name"]: t["fingerprint"] for t in tensors_of(tmp / "new") if t["name"] not in ["wte.weight", "wide.weight"]
    }
    text = run("checkpoint-reshard", source, "--consolidate", "--cast", "fp64", "--output", tmp / "wide").stdout
    assert "cast: 3 tensors; their digests change" in text and "  model/norm.weight\n" in text, text
    again = reshard(tmp / "wide", tmp / "back", "--consolidate", "--only", "model/wte", "--cast", "fp32")
    assert again["digest_after"] == reshard(source, tmp / "one", "--consolidate", "--only", "model/wte")["digest_after"]


def test_what_cannot_be_laid_out_or_chosen_is_refused_with_what_to_do(tmp):
    source = saved(tmp)
    for arguments, said in [
        (["--to", "tp=2,dp_shrad=4"], "did you mean dp_shard?"),
        (["--to", "cp=2"], '"cp" is not a mesh axis, which are pp, dp_replicate, dp_shard, ring, ulysses, tp, ep'),
        (["--to", "tp=2,tp=3"], "axis tp is given twice"),
        (["--to", "tp=0"], "tp=0: it must be from 1 to"),
        (["--to", "dp_shard=2,parts=3"], "2 ranks cannot write 3 parts"),
        (["--to", "dp_shard=512,tp=512"], "is more than the limit of 65536 ranks"),
        (["--to", "tp"], "is not a layout: give parts=N, mesh axes"),
        (
            ["--to", "tp=2", "--skip", "rng"],
            "dividing the model over tp needs its config.json, and the checkpoint has none",
        ),
        (["--to", "pp=2", "--skip", "rng"], "resume with train and parallel.pp 2"),
        (["--to", "dp_shard=2"], "component 'rng' is per_rank and belongs to the ranks of dp_replicate 3"),
        (["--consolidate", "--only", "modle"], "the nearest name is 'model'"),
        (["--consolidate", "--skip", "model/wte.wieght"], "the nearest name is 'model/wte.weight'"),
        (["--consolidate", "--only", "model", "--skip", "model"], "--only and --skip leave nothing to write"),
        (["--consolidate", "--only", "rng", "--cast", "bf16"], "--cast has no effect: there is no component model"),
        (["--consolidate", "--cast", "int8"], "bf16"),
        (["--consolidate", "--memory", "1MiB"], "memory is 1.0 MiB, but"),
        (
            [source, "--consolidate"],
            "2 checkpoints are named, but only one can be resharded: add --average to average them",
        ),
        ([source, "--average", "--only", "optimizer"], "--average has no effect: --only and --skip leave no weights"),
        (["--average"], "--average has no effect on one checkpoint: name several"),
        ([], "--to AXIS=RANKS,… or --consolidate is needed"),
    ]:
        told = refusal(source, tmp / "new", *arguments)
        assert said in told, (arguments, told)
    kept = reshard(source, tmp / "same", "--to", "dp_replicate=3")  # where its ranks are, state of ranks stays
    assert kept["digest_after"] == state_digest(source) and "rng" in json.dumps(manifest_of(tmp / "same")["components"])


def test_checkpoints_of_other_trainers_are_named_with_the_way_across(tmp):
    folder = tmp / "output_models/my_model/checkpoint-500"
    folder.mkdir(parents=True)
    for name in [
        "checkpoint_manifest.json",
        "optimizer_state.pt",
        "pytorch_model-00001-of-00002.bin",
        "rng_state_rank_0.pt",
        "trainer_state.json",
    ]:
        (folder / name).write_bytes(b"PK")
    for path in [folder, folder.parent]:
        told = refusal(path, tmp / "new", "--consolidate", expect=3)
        assert f"{folder} is a checkpoint of another trainer (checkpoint_manifest.json, optimizer_state.pt," in told, (
            told
        )
        assert "train --model.path FOLDER" in told, told
    (tmp / "empty").mkdir()
    assert "is neither a checkpoint" in refusal(tmp / "empty", tmp / "new", "--consolidate", expect=3)


def files_of(checkpoint):
    """The bytes of all files; of the manifest what does not say who made it and when."""
    files = {
        path.relative_to(checkpoint).as_posix(): path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()
    }
    manifest = json.loads(files["MANIFEST.json"])
    return {
        **files,
        "MANIFEST.json": {key: value for key, value in manifest.items() if key not in ["uuid", "created", "hash"]},
    }


def test_ranks_write_the_files_that_one_process_writes(tmp):
    source = saved(tmp)
    for number, arguments in enumerate(
        [["--to", "parts=2"], ["--to", "dp_shard=2,dp_replicate=2", "--skip", "rng", "--cast", "bf16"]]
    ):
        alone = reshard(source, tmp / f"alone{number}", *arguments)
        told = run("checkpoint-reshard", tmp / "run", "--output", tmp / f"many{number}", *arguments, "--json", ranks=3)
        assert {**json.loads(told.stdout), "output": ""} == {**alone, "output": ""}, told
        assert files_of(tmp / f"many{number}") == files_of(tmp / f"alone{number}"), arguments


def test_ranks_that_share_the_work_are_planned_with_bytes_and_memory_of_each(tmp):
    source = saved(tmp)
    arguments = [source, "--consolidate", "--output", tmp / "new", "--dry-run"]
    plan = json.loads(run("checkpoint-reshard", *arguments, "--json", ranks=3).stdout)
    alone = json.loads(run("checkpoint-reshard", *arguments, "--json").stdout)
    assert len(plan["processes"]) == 3 and len(alone["processes"]) == 1 and not (tmp / "new").exists()
    for key in ["bytes", "pieces"]:
        assert sum(process[key] for process in plan["processes"]) == plan[key] == alone["processes"][0][key], plan
    assert (
        max(process["peak_memory_bytes"] for process in plan["processes"])
        == plan["peak_memory_bytes"]
        <= alone["peak_memory_bytes"]
    ), plan
    text = run("checkpoint-reshard", *arguments, ranks=2).stdout
    assert (
        text.count("process 0  reads and writes") == text.count("process 1  reads and writes") == 1
        and "for pieces in progress per process" in text
    ), text


def test_a_rank_whose_storage_fails_ends_all_with_one_message_and_leaves_nothing(tmp):
    source = saved(tmp)
    for code, call, number, path, said in [
        (4, "pwrite", errno.ENOSPC, ".out.stage-", "No space left on device"),
        (4, "pread", errno.EIO, str(source), "Input/output error"),
    ]:
        faults = {
            "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
            "LOCKSTEP_TEST_FAULTS": f"{call} {number} 1 1 1 {path}",
        }
        told = run(
            "checkpoint-reshard",
            source,
            "--to",
            "parts=2",
            "--output",
            tmp / "there/out",
            ranks=3,
            expect=code,
            env=faults,
        ).stderr
        assert told.count(said) == 1 and "rank 1 (" in told and told.count("checkpoint-reshard: ") == 1, told
        assert (
            [path.name for path in (tmp / "there").iterdir()] in ([], [".out.lock"])
            if (tmp / "there").exists()
            else True
        ), told
    both = [
        run(
            "checkpoint-reshard",
            source,
            "--to",
            "tp=2",
            "--skip",
            "rng",
            "--output",
            tmp / "out",
            ranks=ranks,
            expect=2,
        ).stderr.partition(" ")[2]
        for ranks in [None, 3]
    ]  # behind the time
    assert both[0] == both[1] and "has none" in both[0], both


def test_a_rank_that_hangs_is_named_at_the_deadline(tmp):
    source = saved(tmp)
    faults = {
        "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
        "LOCKSTEP_TEST_FAULTS": "pwrite -1 1 0 1 .out.stage-",
    }

    def check(limit_s, _):
        told = run(
            "checkpoint-reshard",
            source,
            "--to",
            "parts=2",
            "--output",
            tmp / "out",
            "--watchdog",
            f"{limit_s}s",
            ranks=2,
            expect=7,
            env=faults,
        ).stderr
        assert "rank 1" in told and not (tmp / "out").exists(), told

    with_short_and_long_deadline(check, 8)


def weights_of(checkpoint, type="float64"):
    return {
        t["name"]: read_tensor(checkpoint, "model", t["name"]).astype(type)
        for t in tensors_of(checkpoint)
        if t["component"] == "model"
    }


def nearest_bf16(value):
    """Of the three 16-bit patterns around a double the nearest one, ties to even, in exact arithmetic."""
    numpy = needs("numpy")
    middle = int(numpy.float32(value).view("uint32") >> 16)
    around = [(bits, float(numpy.uint32(bits << 16).view("float32"))) for bits in (middle - 1, middle, middle + 1)]
    return min(around, key=lambda one: (abs(Fraction(one[1]) - Fraction(value)), one[0] & 1))[1]


def test_weights_of_several_checkpoints_are_averaged_in_double_and_rounded_once(tmp):
    needs("numpy")
    needs("h5py")
    run_command(BUILD / "tests/cli/checkpoint-job", tmp / "run", 3, 1, 2, 1004)
    sources = step_folders(tmp / "run")
    average = ["--average", "--output"]
    done = json.loads(run("checkpoint-reshard", *sources, *average, tmp / "mean", "--json").stdout)
    assert (
        done["digest_before"] is None and done["digest_after"] == state_digest(tmp / "mean") and verified(tmp / "mean")
    ), done
    assert "left out: optimizer, rng; a run that needs them" in done["notes"][0], done
    assert {t["component"] for t in tensors_of(tmp / "mean")} == {"model"}
    wte = [read_tensor(source, "model", "wte.weight").astype("float64") for source in sources]
    mean = (wte[0] + wte[1] + wte[2]) / 3
    assert (read_tensor(tmp / "mean", "model", "wte.weight") == mean.astype("float32")).all() and (
        mean.astype("float32") != mean
    ).any()
    for name in ["norm.weight", "wide.weight", "codes"]:  # equal in all, infinity and NaN among them
        assert read_tensor(tmp / "mean", "model", name).tobytes() == read_tensor(sources[0], "model", name).tobytes(), (
            name
        )
    run("checkpoint-reshard", *sources, *average, tmp / "cast", "--cast", "bf16")
    assert read_tensor(tmp / "cast", "model", "wte.weight").flatten().tolist() == [
        nearest_bf16(value) for value in mean.flatten()
    ]
    manifest = manifest_of(tmp / "mean")
    [line] = map(json.loads, manifest["documents"]["made_from"].splitlines())
    assert line["how"] == "average" and [(one["path"], one["step"], one["state_digest"]) for one in line["of"]] == [
        (str(source), step, state_digest(source)) for source, step in zip(sources, [1, 2, 1004])
    ], line
    assert manifest["step"] == 1 and manifest["metrics"] == {}, manifest
    run("checkpoint-reshard", *sources, *average, tmp / "by-two", ranks=2)
    assert files_of(tmp / "by-two") == files_of(tmp / "mean")
    run("checkpoint-reshard", *sources, *average, tmp / "more", "--only", "[model, optimizer]", "--to", "parts=2")
    kept = {t["name"]: t["fingerprint"] for t in tensors_of(sources[0]) if t["component"] == "optimizer"}
    assert {t["name"]: t["fingerprint"] for t in tensors_of(tmp / "more") if t["component"] == "optimizer"} == kept
    assert "made_from" in run("checkpoint-inspect", tmp / "mean").stdout


def test_checkpoints_on_different_meshes_are_averaged_and_others_are_refused(tmp):
    needs("h5py")
    prepare(tmp)
    run("train", *options(tmp, tmp / "one", "--checkpoint.every", 1, steps=3))
    first, second, third = step_folders(tmp / "one")
    reshard(second, tmp / "second", "--to", "tp=3")  # where ranks hold heads of qkv
    reshard(third, tmp / "third", "--to", "dp_shard=2,pp=2,parts=2", "--only", "model")
    for number, sources in enumerate([[first, second, third], [first, tmp / "second", tmp / "third"]]):
        run("checkpoint-reshard", *sources, "--average", "--output", tmp / f"mean{number}")
    assert state_digest(tmp / "mean0") == state_digest(tmp / "mean1")
    run(
        "checkpoint-reshard",
        tmp / "third",
        first,
        tmp / "second",
        "--average",
        "--memory",
        "64MiB",
        "--to",
        "dp_shard=3",
        "--output",
        tmp / "cut",
    )
    a, b, c = (weights_of(one) for one in [third, first, second])
    for name, values in weights_of(tmp / "cut", "float32").items():
        assert (values == ((a[name] + b[name] + c[name]) / 3).astype("float32")).all(), name
    run("finalize-quantize", tmp / "mean0", "--output", tmp / "export")
    small = dict(GPT2_TINY, n_embd=18, n_layer=2, n_head=3)
    write_config(tmp / "model", dict(small, n_layer=1))
    run("train", *options(tmp, tmp / "small", steps=1))
    write_config(tmp / "model", dict(small, n_inner=40))
    run("train", *options(tmp, tmp / "narrow", steps=1))
    reshard(first, tmp / "cast", "--consolidate", "--cast", "fp64")
    for other, said in [
        (step_folders(tmp / "small")[0], "transformer.h.1.ln_1.weight is only in the first"),
        (
            step_folders(tmp / "narrow")[0],
            "transformer.h.0.mlp.c_fc.weight is fp32 (18, 72) in the first and fp32 (18, 40) in the second",
        ),
        (tmp / "cast", "transformer.wte.weight is fp32 (257, 18) in the first and fp64 (257, 18) in the second"),
    ]:
        told = run("checkpoint-reshard", first, other, "--average", "--output", tmp / "no", expect=2).stderr
        assert said in told and not (tmp / "no").exists(), told
    told = run(
        "checkpoint-reshard", step_folders(tmp / "small")[0], first, "--average", "--output", tmp / "no", expect=2
    ).stderr
    assert "transformer.h.1.ln_1.weight is only in the second" in told, told
    told = run(
        "checkpoint-reshard", *[first] * 9, "--average", "--memory", "64MiB", "--output", tmp / "no", expect=2
    ).stderr
    assert "--memory 64.0 MiB is too little for 9 checkpoints at once" in told and "--memory 88MiB" in told, told
