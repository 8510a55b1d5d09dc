"""Write the contracts that ``lint-imports`` checks: ``python scripts/layer_contracts.py FILE``.

Those in pyproject.toml say how wings and rooms depend on each other. One more follows from each
folder's docstring, which ends with one of

    Other folders may import: ``name``, ``inner.name``.
    Only this folder may import: ``name``; other folders may import the rest.

where names are modules of the folder.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_DOORS, _INNER = "Other folders may import:", "Only this folder may import:"
_ALL = "everything here"


def folder_contract(init: Path) -> dict[str, Any] | None:
    """Return the contract that a folder's docstring states, or None if it states none.

    Args:
        init: the folder's ``__init__.py``.
    """
    text = " ".join((ast.get_docstring(ast.parse(init.read_text("utf-8"))) or "").split())
    folder = ".".join(init.parent.relative_to(_ROOT).parts)
    inner, doors = _names_behind(_INNER, text), _names_behind(_DOORS, text)
    if inner is not None:
        return {
            "name": f"Inner modules of {folder}",
            "type": "protected",
            "protected_modules": [f"{folder}.{name}" for name in inner],
            "allowed_importers": [folder],
        }
    if doors is None or _ALL in text:
        return None
    return {
        "name": f"Doors of {folder}",
        "type": "protected",
        "protected_modules": [f"{folder}.{name}" for name in _children(init.parent)],
        "allowed_importers": [folder],
        "ignore_imports": [f"** -> {folder}.{name}" for name in doors],
    }


def _children(folder: Path) -> list[str]:
    """Return the modules of a folder, and its inner folders that state no contract of their own."""
    inner = [path.parent for path in sorted(folder.glob("*/__init__.py")) if not _is_stated(path)]
    modules = [path for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    return [path.stem for path in (*modules, *inner)]


def _is_stated(init: Path) -> bool:
    text = init.read_text("utf-8")
    return _DOORS in text or _INNER in text


def _names_behind(introduction: str, text: str) -> list[str] | None:
    _, found, names = text.partition(introduction)
    return re.findall(r"``([\w.]+)``", names.partition(";")[0]) if found else None


def layer_contracts() -> list[dict[str, Any]]:
    """Return all contracts: pyproject.toml's, and those of the docstrings."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))
    folders = sorted((_ROOT / "ortpkg").rglob("__init__.py"))
    stated = [contract for init in folders if (contract := folder_contract(init))]
    return [*settings["tool"]["importlinter"]["contracts"], *stated]


def _as_toml(contracts: list[dict[str, Any]]) -> str:
    head = '[tool.importlinter]\nroot_package = "ortpkg"\ninclude_external_packages = true\n'
    tables = [
        "\n".join(f"{key} = {json.dumps(value)}" for key, value in contract.items())
        for contract in contracts
    ]
    return head + "".join(f"\n[[tool.importlinter.contracts]]\n{table}\n" for table in tables)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_as_toml(layer_contracts()), encoding="utf-8")
