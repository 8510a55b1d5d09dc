"""convert, merge, slim and migrate-check on the command line."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import DIGITS, RunCommand


def test_convert_makes_a_new_package(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("convert", DIGITS, "--to", "component", "-o", tmp_path / "new")

    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[-1].endswith("new is a component package")
    assert ortpkg("inspect", tmp_path / "new", "--json").json["format"] == "component"


def test_convert_wants_to_know_where_the_result_goes(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("convert", DIGITS, "--to", "component")

    assert done.code == 2
    assert "-o NEW makes a new package, --in-place changes this one" in done.err
    assert ortpkg("convert", DIGITS, "--to", "component", "-o", tmp_path / "n", "--in-place").code == 2
