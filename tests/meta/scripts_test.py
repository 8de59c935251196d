"""Scripts, make targets and the counting of tests."""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import unittest

from lockstep_testing import BUILD, PATIENCE_S, SOURCE, needs, run_command


def shell_scripts():
    for path in [
        *SOURCE.glob("scripts/*"),
        *SOURCE.glob("scripts/slurm/*"),
        *SOURCE.glob("scripts/cluster/*"),
        *SOURCE.glob(".ci/*"),
        *SOURCE.glob("tests/**/*.sh"),
    ]:
        if path.is_file() and (
            path.suffix == ".sh" or re.match(rb"#!\s*/\S*(/env\s+)?\w*sh\b", path.read_bytes()[:80])
        ):
            yield path


def test_scripts_pass_shellcheck():
    if not shutil.which("shellcheck"):
        raise unittest.SkipTest("shellcheck is not installed (make setup-test)")
    scripts = list(shell_scripts())
    assert len(scripts) >= 4, scripts
    run_command("shellcheck", "-x", "-P", SOURCE, *scripts)


def test_a_cross_compiler_takes_the_sources_that_ask_for_instructions_of_x86():
    if not shutil.which("aarch64-linux-gnu-g++"):
        raise unittest.SkipTest("no compiler for ARM is installed (g++-aarch64-linux-gnu)")
    asking = [
        path
        for path in sorted((SOURCE / "lib").rglob("*.cpp"))
        if re.search("vector_|amx_|__x86_64__|Denormal", path.read_text())
    ]
    assert len(asking) > 5, asking
    cross_check = ["env", f"LOCKSTEP_BUILD_FOLDER={BUILD}", SOURCE / "scripts/cross-check"]
    run_command(*cross_check, *asking)
    assert "compiles no" in run_command(*cross_check, SOURCE / "README.md", expect=1).stderr


def test_every_make_target_explains_itself_in_help():
    makefile = (SOURCE / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)[1].split())
    shown = set(
        re.findall(
            r"^  make (\S+)", run_command("make", "-C", SOURCE, "--no-print-directory", "help").stdout, re.MULTILINE
        )
    )
    assert targets == shown, targets ^ shown
    assert targets >= set(
        "help setup setup-test build programs quickstart check test test-full format lint sanitize debug bench docs install clean".split()
    )


def test_set_up_explains_itself_and_refuses_what_it_does_not_know():
    assert "DEPS=FOLDER" in run_command(SOURCE / "scripts/setup", "--help").stdout
    for words in (["--everything"], ["--cuda", "--everything"]):
        run_command(SOURCE / "scripts/setup", *words, expect=2)


def test_the_pins_of_the_build_are_those_of_the_tests():
    def pins(name):
        return {line for line in (SOURCE / "scripts" / name).read_text().splitlines() if "==" in line}

    assert pins("requirements.txt") and pins("requirements.txt") < pins("requirements-tables.txt") <= pins(
        "requirements-test.txt"
    )
    assert pins("requirements.txt") < pins("requirements-cuda.txt") <= pins("requirements-test.txt")
    assert pins("requirements.txt") < pins("requirements-cuda-build.txt")
    shared = {line.partition("==")[0]: line for line in pins("requirements-cuda.txt")}
    assert all(shared.get(line.partition("==")[0], line) == line for line in pins("requirements-cuda-build.txt"))


def test_the_libraries_of_cuda_are_those_that_the_wheel_of_libtorch_names():
    needs("torch")
    named = {"cuda-toolkit", "cuda-bindings", "triton"}  # Python, or a list of the others
    wanted = {
        re.match(r"[\w-]+", requirement)[0]: requirement.partition(";")[0].strip()
        for requirement in importlib.metadata.requires("torch")
        if re.match(r"(nvidia|cuda)", requirement)
    }
    pinned = (SOURCE / "scripts/requirements-cuda.txt").read_text()
    missing = [text for name, text in wanted.items() if name not in named and f"{text}\n" not in pinned]
    assert len(wanted) > 3 and not missing, missing


def test_set_up_for_compiling_cuda_takes_the_compiler_of_the_system(tmp):
    if not shutil.which("nvcc"):
        raise unittest.SkipTest("this machine has no nvcc")
    text = (SOURCE / "scripts/setup").read_text()
    function = re.search(r"^system_has_nvcc\(\).*?^}", text, re.MULTILINE | re.DOTALL)[0]
    script = tmp / "has_nvcc"
    script.write_text(f"set -euo pipefail\n{function}\nif system_has_nvcc; then echo yes; else echo no; fi\n")
    assert run_command("bash", script).stdout == "yes\n"
    for version, answer in (("release 12.4, V12.4.1", "no\n"), ("release 13.0, V13.0.88", "no\n")):
        old = tmp / "nvcc"  # without headers
        old.write_text(f"#!/bin/sh\necho '{version}'\n")
        old.chmod(0o755)
        replaced = script.read_text().replace("/usr/local/cuda/bin/nvcc", str(tmp / "none"))
        (tmp / "other").write_text(f"PATH={tmp}:/usr/bin:/bin\n{replaced}")
        assert run_command("bash", tmp / "other").stdout == answer, version


def test_jobs_take_the_words_of_every_line_of_their_settings(tmp):
    tools = tmp / "tools"
    tools.mkdir()
    for name in ["prepare-data", "train", "checkpoint-inspect", "finalize-quantize"]:
        (tools / name).write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        (tools / name).chmod(0o755)
    (tmp / "site.sh").write_text(f"PATH={tools}:$PATH\nLAUNCH=${{LAUNCH:-env A=1}}\n")
    settings = dict(
        os.environ,
        SITE=str(tmp / "site.sh"),
        SLURM_SUBMIT_DIR=str(tmp),
        INPUT="one.txt\ntwo.txt three.txt\n",
        OPTIONS="--first 1\n  --second 2\n\n--third=3\n",
        LAUNCH="env A=1\n  B=2",
    )
    three = ["--first", "1", "--second", "2", "--third=3"]
    expected = {
        "prepare": ["prepare-data", "one.txt", "two.txt", "three.txt", "--output", "data/corpus", *three],
        "train": ["train", "configs/llama-tiny.yaml", "--lockstep.log.records", "file", *three],
        "finalize": ["finalize-quantize", "runs/llama-tiny", "--output", "models/llama-tiny", *three],
    }
    for job, words in expected.items():
        done = subprocess.run(
            ["bash", SOURCE / f"scripts/slurm/{job}.sbatch"],
            env=settings,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        said = [line for line in done.stdout.splitlines() if not line.startswith(f"{job}: ")]
        assert said[-len(words) :] == words and done.returncode == 0, (job, done)


def test_ranks_of_a_job_see_all_gpus_of_their_node():
    """The site file, as a job of Slurm sources it."""

    def binding(**settings):
        script = f'. "{SOURCE}/scripts/slurm/site.sh"; echo "${{SLURM_GPU_BIND:-as Slurm does}}"'
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        done = subprocess.run(["bash", "-c", script], env={**clean, **settings}, capture_output=True, text=True)
        return done.stdout.strip()

    assert binding() == "as Slurm does"
    assert binding(SLURM_GPUS_PER_TASK="1") == "none"
    assert binding(SLURM_GPUS_PER_TASK="1", SLURM_GPU_BIND="closest") == "closest"


def dependencies_of_the_build():
    """The names of libraries in meson.build: the first of each call, and libraries without a pkg-config file."""
    text = (SOURCE / "meson.build").read_text()
    return set(re.findall(r"\bdependency\('([^']+)'", text)) | set(
        re.findall(r"cpp\.find_library\('(\w+)', has_headers", text)
    )


def test_the_spack_environment_has_a_package_for_every_dependency_of_the_build():
    yaml = needs("yaml")
    environment = yaml.safe_load((SOURCE / "scripts/cluster/spack.yaml").read_text())["spack"]
    assert environment.keys() == {"specs", "concretizer", "view"} and environment["view"] is True
    specs = {re.match(r"[a-z0-9-]+", spec)[0]: spec for spec in environment["specs"]}
    assert len(specs) == len(environment["specs"]), specs
    packages = {  # of dependencies of meson.build; of the compiler and the system: None
        "threads": None,
        "dl": None,
        "nlohmann_json": "nlohmann-json",
        "libxxhash": "xxhash",
        "libzstd": "zstd",
        "bz2": "bzip2",
        "liblzma": "xz",
        "libpcre2-8": "pcre2",
        "hdf5-serial": "hdf5",
        "mpi": "openmpi",
        "libcurl": "curl",
    }
    names = dependencies_of_the_build()
    assert {"fmt", "zlib", "bz2", "hdf5-serial", "mpi", "boost"} <= names, names
    wanted = {packages.get(name, name) for name in names} - {None}
    assert wanted <= set(specs), wanted - set(specs)
    assert set(specs) - wanted == {"python", "meson", "ninja", "pkgconf", "gmake"}, set(specs) - wanted
    assert "~mpi" in specs["hdf5"] and "+threadsafe" in specs["hdf5"] and "+test" in specs["boost"]
    least = re.search(r"libcurl', version: '>= ([\d.]+)'", (SOURCE / "meson.build").read_text())[1]
    assert specs["curl"] == f"curl@{least}:"


def sections_of_recipe():
    """The header of the recipe of the image, and its sections by name."""
    header, *sections = re.split(r"^%", (SOURCE / "scripts/cluster/lockstep.def").read_text(), flags=re.M)
    settings = dict(line.split(": ", 1) for line in header.splitlines() if not line.startswith("#") and line.strip())
    return settings, {section.split("\n", 1)[0].strip(): section.split("\n", 1)[1] for section in sections}


def test_the_recipe_of_the_image_copies_and_makes_what_there_is(tmp):
    settings, sections = sections_of_recipe()
    assert settings == {"Bootstrap": "docker", "From": "debian:12-slim"}
    assert set(sections) == {"files", "post", "environment", "test", "runscript", "labels"}
    for name in ["post", "environment", "test", "runscript"]:
        (tmp / name).write_text(sections[name])
        run_command("sh", "-n", tmp / name)
    folder = re.search(r"^ *cd (\S+)$", sections["post"], re.M)[1]
    copied = dict(line.split() for line in sections["files"].splitlines() if line.strip())
    assert all((SOURCE / name).exists() for name in copied) and set(copied.values()) == {folder + "/"}, copied
    build = (SOURCE / "meson.build").read_text()
    assert "-Dtests=disabled" in sections["post"]
    assert set(re.findall(r"subdir\('(\w+)'\)", build)) - {"tests"} <= set(copied)
    made = re.findall(r"^ *make ([a-z]+)\b", sections["post"], re.M)
    targets = re.search(r"^\.PHONY:(.*)$", (SOURCE / "Makefile").read_text(), re.M)[1].split()
    assert made == ["setup", "install"] and set(made) <= set(targets)
    programs = re.search(r"for program in (.*); do", sections["test"])[1].split()
    assert set(programs) == set(
        re.findall(
            r"'([a-z-]+)'", re.search(r"tools_with_page = \[(.*)\]", (SOURCE / "man/meson.build").read_text())[1]
        )
    )


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tarball(folder, names):
    """A tarball whose only folder has these files."""
    for name in names:
        path = folder / "hdf5-0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    run_command("tar", "-cf", folder / "hdf5.tar", "-C", folder, "hdf5-0")
    return folder / "hdf5.tar"


def build_hdf5(*arguments, expect, **settings):
    done = subprocess.run(
        ["sh", SOURCE / "scripts/build-hdf5", *map(str, arguments)],
        env=dict(os.environ, **settings),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == expect, done
    return done.stdout + done.stderr


def stand_in_tools(folder):
    """A cmake that builds nothing, and installs a header as the release does."""
    folder.mkdir()
    (folder / "cmake").write_text(
        """#!/bin/sh
printf '%s\\n' "$@" >>"$LOG"
for word; do case "$word" in -DCMAKE_INSTALL_PREFIX=*) echo "${word#*=}" >"$LOG.prefix" ;; esac; done
if [ "$1" = --install ]; then
  mkdir -p "$(cat "$LOG.prefix")/include"
  printf '#define H5_VERSION "1.14.6"\\n%s\\n' "$DEFINED" >"$(cat "$LOG.prefix")/include/H5pubconf.h"
fi
"""
    )
    (folder / "cmake").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_the_script_for_hdf5_takes_a_tarball_and_leaves_a_library_that_pkg_config_finds(tmp):
    settings = {"PATH": stand_in_tools(tmp / "tools"), "LOG": str(tmp / "log"), "TMPDIR": str(tmp / "work")}
    (tmp / "work").mkdir()
    source = tarball(tmp, ["src/H5public.h"])
    told = build_hdf5(
        tmp / "prefix", source, expect=0, DEFINED="#define H5_HAVE_THREADSAFE 1", SHA256=sha256(source), **settings
    )
    assert f"export PKG_CONFIG_PATH={tmp}/prefix/lib/pkgconfig:$PKG_CONFIG_PATH" in told, told
    words = (tmp / "log").read_text().splitlines()
    assert {"-DHDF5_ENABLE_THREADSAFE=ON", "-DHDF5_ENABLE_PARALLEL=OFF", "-DHDF5_BUILD_HL_LIB=OFF"} <= set(words), words
    found = dict(os.environ, PKG_CONFIG_PATH=f"{tmp}/prefix/lib/pkgconfig")
    shown = subprocess.run(
        ["pkg-config", "--modversion", "hdf5-serial"], env=found, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert shown.stdout == "1.14.6\n", shown
    assert list((tmp / "work").iterdir()) == []
    assert "cannot be built thread-safe" in build_hdf5(tmp / "other", source, expect=1, DEFINED="", **settings)


def test_the_script_for_hdf5_refuses_other_sources(tmp):
    settings = {"PATH": stand_in_tools(tmp / "tools"), "LOG": str(tmp / "log"), "DEFINED": ""}
    source = tarball(tmp, ["src/H5public.h"])
    other = tarball(tmp / "other", ["README"])
    (tmp / "text").write_text("no tarball")
    for arguments, code, reason in [
        ([], 2, "scripts/build-hdf5 PREFIX [SOURCE]"),
        (["--prefix"], 2, "scripts/build-hdf5 PREFIX [SOURCE]"),
        ([tmp / "p", tmp / "none"], 3, f"there is no file {tmp}/none"),
        ([tmp / "p", tmp / "text"], 3, "is not a tarball"),
        ([tmp / "p", other], 3, "it has no src/H5public.h"),
        ([tmp / "p", f"file://{tmp}/none.tar"], 3, "cannot download"),
    ]:
        assert reason in build_hdf5(*arguments, expect=code, **settings), reason
    told = build_hdf5(tmp / "p", source, expect=3, SHA256="0" * 64, **settings)
    assert f"is {sha256(source)}, not {'0' * 64}" in told, told
    assert not (tmp / "log").exists(), "nothing was built"


def quickstart(tmp, corpus):
    """A clone in `tmp`, whose programs are not there but for one that fails, started from another folder; the completed process."""
    (tmp / "clone/scripts").mkdir(parents=True, exist_ok=True)
    shutil.copy(SOURCE / "scripts/quickstart", tmp / "clone/scripts")
    (tmp / "clone/build/tools").mkdir(parents=True, exist_ok=True)
    for name in ["train", "prepare-data"]:
        (tmp / "clone/build/tools" / name).write_text("#!/bin/sh\nexit 9\n")
        (tmp / "clone/build/tools" / name).chmod(0o755)
    (tmp / "elsewhere").mkdir(exist_ok=True)
    return subprocess.run(
        [tmp / "clone/scripts/quickstart"],
        cwd=tmp / "elsewhere",
        env=dict(os.environ, CORPUS=str(corpus)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_quickstart_takes_a_text_from_where_it_was_called(tmp):
    (tmp / "elsewhere").mkdir()
    (tmp / "elsewhere/mine.txt").write_text("my text")
    assert quickstart(tmp, "mine.txt").returncode == 9
    assert (tmp / "clone/quickstart/corpus.txt").read_text() == "my text"
    assert (
        quickstart(tmp, tmp / "clone/quickstart/corpus.txt").returncode == 9
    )  # what it replaces may be the text itself
    assert (tmp / "clone/quickstart/corpus.txt").read_text() == "my text"


def test_quickstart_without_its_text_leaves_what_is_there(tmp):
    (tmp / "clone/quickstart").mkdir(parents=True)
    (tmp / "clone/quickstart/kept").write_text("")
    done = quickstart(tmp, "absent.txt")
    assert done.returncode == 3 and str(tmp / "elsewhere/absent.txt") in done.stderr, done
    assert [path.name for path in (tmp / "clone").glob("quickstart*")] == ["quickstart"]
    assert (tmp / "clone/quickstart/kept").exists()


def test_quickstart_compiles_the_programs_only():
    wanted = run_command("make", "-C", SOURCE, "-n", "--no-print-directory", "programs", f"BUILD={BUILD}").stdout
    assert re.search(r"meson compile -C \S+ programs$", wanted, re.M), wanted
    assert (
        "--no-print-directory programs"
        in re.search(r"^quickstart:.*?\n\n", (SOURCE / "Makefile").read_text(), re.M | re.S)[0]
    )
    needed = run_command("ninja", "-C", BUILD, "-t", "inputs", "programs").stdout.split()
    assert "tools/lockstep-train" in needed and "tools/train-job" in needed and "tools/lockstep-prepare-data" in needed
    assert not [name for name in needed if "tests" in name or name.startswith(("man/", "../man"))]


def counted(tmp, tests, code):
    log = tmp / "testlog.json"
    log.write_text("".join(json.dumps(test) + "\n" for test in tests))
    done = run_command("python3", SOURCE / "tests/harness/count_tests.py", log, code, expect=None)
    return done.stdout.splitlines()[-1], done.returncode


def test_what_was_skipped_is_named_with_the_reason_before_the_last_line(tmp):
    tests = [
        {
            "name": "tables",
            "result": "OK",
            "returncode": 0,
            "stdout": "ok 1 - a # SKIP no Arrow\nok 2 - b # SKIP no Arrow\nok 3 - c\n1..3\n",
        },
        {"name": "stores", "result": "SKIP", "returncode": 77, "stdout": "1..0 # SKIP no Arrow\n"},
        {"name": "silent", "result": "SKIP", "returncode": 77, "stdout": ""},
    ]
    log = tmp / "testlog.json"
    log.write_text("".join(json.dumps(test) + "\n" for test in tests))
    assert run_command("python3", SOURCE / "tests/harness/count_tests.py", log, 0).stdout.splitlines() == [
        "skipped: no Arrow: tables (2), stores (1)",
        "skipped: no reason is given: silent (1)",
        "1 passed, 0 failed, 4 skipped",
    ]


def test_every_tap_line_counts_and_skips_count_apart(tmp):
    tap = {
        "name": "a",
        "result": "OK",
        "returncode": 0,
        "stdout": "ok 1 - x\n# note\nok 2 - y # SKIP no gpu\nok 3\n1..3\n",
    }
    plain = {"name": "b", "result": "OK", "returncode": 0, "stdout": "hello\n"}
    assert counted(tmp, [tap, plain], 0) == ("3 passed, 0 failed, 1 skipped", 0)


def test_a_program_that_fails_without_saying_where_counts_as_one_failure(tmp):
    said = {"name": "a", "result": "FAIL", "returncode": 1, "stdout": "ok 1 - x\nnot ok 2 - y\n1..2\n"}
    crash = {"name": "b", "result": "ERROR", "returncode": -11, "stdout": "ok 1 - x\n"}
    silent = {"name": "c", "result": "TIMEOUT", "returncode": -9, "stdout": ""}
    assert counted(tmp, [said, crash, silent], 3) == ("2 passed, 3 failed", 1)


def test_a_run_that_meson_calls_failed_is_never_reported_as_passed(tmp):
    assert counted(tmp, [{"name": "a", "result": "OK", "returncode": 0, "stdout": "ok 1\n"}], 1) == (
        "1 passed, 1 failed",
        1,
    )
