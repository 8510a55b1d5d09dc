"""Contracts of layers follow from what the docstrings of folders say."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.layer_contracts import folder_contract, layer_contracts

ROOT = Path(__file__).resolve().parents[1] / "ortpkg"
#: Folders that state a contract: wings with modules of their own, and rooms.
FOLDERS = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for pattern in ("*/__init__.py", "*/*/__init__.py")
    for path in ROOT.glob(pattern)
)
#: Folders of which only the rooms or the names that they import are used, or pyproject.toml speaks.
WITHOUT = {
    *("backend", "capi", "distribution/project", "foundations", "runtime", "scale", "selection"),
    *("package/references", "selection/contexts"),
}
#: Rooms whose modules the wing around them uses.
INNER = {
    *("authoring/checks", "authoring/rules", "authoring/sharing", "compiler/assembly"),
    *("compiler/emission", "compiler/fusion", "compiler/layouts", "compiler/loop_ir"),
    *("compiler/lowering", "compiler/schedules", "compiler/tensor_ir", "package/integrity"),
    *("package/paths", "report/sections"),
}


@pytest.mark.parametrize("folder", sorted(set(FOLDERS) - WITHOUT - INNER))
def test_a_folder_says_which_modules_others_may_import(folder: str) -> None:
    contract = folder_contract(ROOT / folder / "__init__.py")
    assert contract is not None
    names = contract.get("ignore_imports", contract["protected_modules"])
    assert names or folder == "foundations/errors"
    for name in names:
        path = name.rpartition(" ")[2].split(".")[1:]
        assert ROOT.joinpath(*path).with_suffix(".py").is_file(), name


def test_contracts_are_those_of_pyproject_and_one_of_each_folder() -> None:
    names = [contract["name"] for contract in layer_contracts()]
    assert len(names) == len(set(names))
    assert "Doors of ortpkg.runtime.session" in names
    assert "Inner modules of ortpkg.graph" in names
    assert "No circles, in any folder, type checkers' imports among them" in names
