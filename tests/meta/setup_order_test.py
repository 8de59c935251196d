"""A build folder that is there already finds what set-up adds later, as README's two commands in their order add it: make quickstart, then
make setup-test test. Nothing is compiled."""

import json
import pathlib

from lockstep_testing import SOURCE, needs, run_command


def test_a_build_folder_finds_the_wheels_that_set_up_adds_later(tmp):
    site_packages = pathlib.Path(needs("pyarrow").__file__).parents[1]
    needs("torch")
    for name in ["lib", "scripts", "tools", "meson.build", "meson_options.txt"]:
        (tmp / name).symlink_to(SOURCE / name)
    packages = tmp / "deps/python/lib/python3/site-packages"
    packages.mkdir(parents=True)

    def add(wheel):
        for part in [site_packages / wheel, *site_packages.glob(f"{wheel}-*.dist-info")]:
            (packages / part.name).symlink_to(part)
        run_command(tmp / "scripts/note-installed")

    def targets():
        return {
            target["name"]
            for target in json.loads(run_command("meson", "introspect", tmp / "build", "--targets").stdout)
        }

    add("torch")
    run_command("meson", "setup", tmp / "build", tmp, "-Dtests=disabled", "-Ddocs=disabled")
    assert "train-job" in targets() and "lockstep-tables" not in targets(), targets()
    add("pyarrow")
    run_command("ninja", "-C", tmp / "build", "build.ninja")
    assert "lockstep-tables" in targets(), targets()
    run_command(tmp / "scripts/note-installed")
    assert "no work to do" in run_command("ninja", "-C", tmp / "build", "build.ninja").stdout


def test_set_up_notes_what_it_has_installed():
    assert (SOURCE / "scripts/setup").read_text().splitlines()[-1] == 'scripts/note-installed "${packages[@]}"'
