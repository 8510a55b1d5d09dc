"""Vendors' libraries, loaded by ortpkg, write nothing at home and ask for no network."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.isolation.audited_processes import run_audited
from tests.isolation.test_nothing_leaves import OWN_FOLDERS
from tests.vendors.conftest import DIGITS, Ortpkg

pytestmark = [pytest.mark.vendors, pytest.mark.timeout(900)]

#: The environment of an audited process has no settings of ortpkg's, so the command brings its own.
_COMMAND = (
    "import os, sys; os.environ['ORTPKG_EMULATED_DEVICES'] = 'qnn';from ortpkg.cli.app import main;"
    " main(sys.argv[1:])"
)


@pytest.mark.parametrize(
    "words",
    [["devices"], ["select", "PKG", "--device", "npu"], ["run", "PKG", "--device", "npu"]],
    ids="-".join,
)
def test_no_command_writes_into_the_home_directory(
    words: list[str], tmp_path: Path, fixed_model: Path, ortpkg: Ortpkg
) -> None:
    package = Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))
    variant = ("--component", "classifier", "--variant", "qnn", "--ep", "qnn", "--device", "npu")
    assert ortpkg("add-variant", package, fixed_model, *variant).code == 0
    filled = [str(package) if word == "PKG" else word for word in words]
    done = run_audited(["-c", _COMMAND, *filled], tmp_path / "audit")
    assert done.code == 0, done.errors
    assert done.process_count > 1, "the libraries are tried in a child"
    assert done.network == ()
    assert [name for name in done.home if not name.startswith(OWN_FOLDERS)] == []
