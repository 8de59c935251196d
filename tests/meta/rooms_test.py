"""The house keeps its order: which room includes which, who may touch which library, what is registered and how large a main is."""

import re
import unittest

from lockstep_testing import BUILD, SOURCE, run_command

ROOMS = (
    "base device report plugin unicode jinja chat options remote tokenizer dialects config layout program quant store architecture exchange "
    "readers comm app reshard data prepare artifact tensor trial model optim engine checkpoint train cuda"
).split()
# Headers of a library, and the only rooms whose sources include them.
LIBRARIES = {
    r"mpi\.h": ["comm"],
    r"(cuda|cublas|nccl|nvml).*\.h": ["cuda"],
    r"(hdf5|H5\w+)\.h": ["store"],
    r"(torch|ATen|c10)/.*": ["tensor", "trial", "model", "optim", "engine", "checkpoint", "train", "cuda"],
    r"yaml-cpp/.*": ["options"],
    r"spdlog/.*": ["report"],
    r"simdjson\.h": ["base", "exchange", "tokenizer", "readers"],
    r"pcre2\.h": ["tokenizer", "options", "optim"],
    r"curl/.*": ["remote"],
}
# Rooms that take values, never a configuration: who uses them need not know an option. In store, the body of checkpoint-inspect alone does.
WITHOUT_CONFIGURATION = "device layout program quant store architecture exchange readers comm data tensor trial model engine checkpoint cuda".split()
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def sources():
    for room in ROOMS:
        for path in sorted((SOURCE / "lib" / room).glob("**/*")):
            if (
                path.suffix in (".h", ".hpp", ".cpp", ".cu", ".cuh") and path.stem != "example_plugin"
            ):  # which is as those of users
                yield room, path, INCLUDE.findall(path.read_text())


def test_every_folder_of_lib_is_a_known_room():
    assert not [path.name for path in (SOURCE / "lib").iterdir() if path.is_dir() and path.name not in [*ROOMS, "pch"]]


def test_each_room_includes_only_rooms_above_it():
    wrong = []
    for room, path, includes in sources():
        for kind, name in includes:
            other = name.split("/")[0]
            if kind == '"' and (other not in ROOMS or ROOMS.index(other) > ROOMS.index(room)):
                wrong.append(f"{path.relative_to(SOURCE)} includes {name}")
    assert not wrong, "\n".join(wrong)


def test_the_drawing_of_the_rooms_is_that_of_the_sources():
    shown = re.search(r"^```rooms\n(.*?)^```", (SOURCE / "lib/README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    assert shown == run_command(SOURCE / "scripts/draw-rooms").stdout, "scripts/draw-rooms prints another drawing"


def test_low_rooms_include_no_configuration():
    wrong = [
        f"{path.relative_to(SOURCE)} includes {name}"
        for room, path, includes in sources()
        for _, name in includes
        if room in WITHOUT_CONFIGURATION and re.fullmatch(r"config/\w+_config\.hpp", name) and path.stem != "inspect"
    ]
    assert not wrong, "\n".join(wrong)


def test_no_two_files_have_one_name():
    paths = {}
    for _, path, _ in sources():
        paths.setdefault(path.name, []).append(str(path.relative_to(SOURCE)))
    assert not {name: found for name, found in paths.items() if len(found) > 1}


def test_libraries_are_touched_only_where_they_belong():
    wrong = []
    for room, path, includes in sources():
        for _, name in includes:
            for pattern, rooms in LIBRARIES.items():
                if re.fullmatch(pattern, name) and room not in rooms:
                    wrong.append(f"{path.relative_to(SOURCE)} includes {name}")
    assert not wrong, "\n".join(wrong)


def test_a_type_of_a_header_has_its_name_for_itself():
    """All share one namespace: two types of one name would break the one-definition rule without a word from the compiler."""
    places = {}
    for _, path, _ in sources():
        if path.suffix == ".hpp":
            for name in re.findall(
                r"^(?:struct|class|enum class) (\w+)\b(?!::)(?![^{;]*;)", path.read_text(), re.MULTILINE
            ):
                places.setdefault(name, set()).add(str(path.relative_to(SOURCE)))
    assert len(places) > 100, places
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_headers_that_others_include_do_not_show_mpi():
    shown = [
        str(path.relative_to(SOURCE))
        for _, path, includes in sources()
        if path.suffix == ".hpp" and ("<", "mpi.h") in includes
    ]
    assert not shown


def test_a_main_fits_on_a_screen():
    long = [
        f"{path.name}: {count} lines"
        for path in sorted((SOURCE / "tools").glob("*.cpp"))
        if (count := len(path.read_text().splitlines())) > 60
    ]
    assert not long


def test_every_source_is_compiled_and_every_test_file_registered():
    missing = []
    for pattern in [
        "lib/*/*.cpp",
        "tests/unit/*/*_test.cpp",
        "tests/mpi/*/*_test.cpp",
        "tests/cli/*_test.py",
        "tests/e2e/*_test.py",
        "tests/meta/*_test.py",
    ]:
        for path in sorted(SOURCE.glob(pattern)):
            listing = path.parent / "meson.build"
            if not listing.exists() or f"'{path.name}'" not in listing.read_text():
                missing.append(str(path.relative_to(SOURCE)))
    assert not missing, f"not in the meson.build beside them: {missing}"


def linked_libraries(name):
    path = BUILD / "tools" / name
    if not path.exists():
        raise unittest.SkipTest(f"{name} is not built")
    return run_command("ldd", path).stdout


def test_serial_programs_carry_neither_mpi_nor_libtorch():
    for name in ["checkpoint-inspect"]:
        libraries = linked_libraries(name)
        assert "libmpi" not in libraries and "libtorch" not in libraries and "libc10" not in libraries, libraries


def test_only_the_job_of_training_needs_libtorch():
    for name in ["prepare-data", "checkpoint-reshard", "finalize-quantize", "train"]:
        libraries = linked_libraries(name)
        assert "libtorch" not in libraries and "libc10" not in libraries, libraries
    assert "libtorch" in linked_libraries("train-job")


def test_sources_of_kernels_for_gpus_include_no_libtorch():
    """nvcc would take most of a minute for its headers, in each of them."""
    sources = sorted((SOURCE / "lib/cuda/kernels").glob("*.cu"))
    open_files, seen, wrong = list(sources), set(sources), []
    while open_files:
        path = open_files.pop()
        for kind, name in INCLUDE.findall(path.read_text()):
            if re.fullmatch(r"(torch|ATen|c10)/.*", name):
                wrong.append(f"{path.relative_to(SOURCE)} includes {name}")
            included = SOURCE / "lib" / name
            if kind == '"' and included.exists() and included not in seen:
                seen.add(included)
                open_files.append(included)
    assert sources and len(seen) > len(sources) and not wrong, wrong
