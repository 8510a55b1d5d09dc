"""A folder's docstring says which modules others may import, as the contracts of layers do."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS: list[dict[str, Any]] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["tool"]["importlinter"]["contracts"]
PROTECTED = {
    each["name"].partition(" of ")[2]: each for each in CONTRACTS if each["type"] == "protected"
}
#: Folders that say in words of their own who imports them.
IN_OTHER_WORDS = {"backend", "capi", "project"}


def doors_told(room: str, introduction: str) -> set[str]:
    text = ast.get_docstring(ast.parse((ROOT / "ortpkg" / room / "__init__.py").read_text("utf-8")))
    _, _, told = (text or "").partition(introduction)
    return set(re.findall(r"``([\w.]+)``", re.split(r"\.\s*$|; other folders", told)[0]))


@pytest.mark.parametrize("room", sorted(PROTECTED.keys() - IN_OTHER_WORDS))
def test_a_folder_tells_the_doors_that_its_contract_keeps(room: str) -> None:
    contract = PROTECTED[room]
    folder = f"ortpkg.{room.replace('/', '.')}."
    if contract["name"].startswith("Doors"):
        kept = {each.rpartition(" ")[2].removeprefix(folder) for each in contract["ignore_imports"]}
        assert doors_told(room, "Other folders may import:") == kept
    else:
        kept = {each.removeprefix(folder) for each in contract["protected_modules"]}
        assert doors_told(room, "Only this folder may import:") == kept


def test_every_folder_has_a_contract() -> None:
    rooms = {path.parent.name for path in (ROOT / "ortpkg").glob("*/__init__.py")}
    assert rooms - {name.partition("/")[0] for name in PROTECTED} == set()
