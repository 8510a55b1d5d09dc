"""Files and modules that documents and the code's own texts name are there."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "docs", "examples", "ortpkg", "sample_packages", "scripts", "tests")
#: Of a kind that packages have none of, and models neither.
_ENDINGS = (".md", ".py", ".sh", ".toml")
#: What users write, and a document of another project.
_ELSEWHERE = frozenset({"ortpkg.toml", "trust.toml", "docs/ExternalData.md"})
_QUOTED = re.compile(r"`+([\w./-]+)`+")
_LINK = re.compile(r"\]\(([^)#\s]+)")
#: Of the picture's left column, before what it says of each.
_WIDTH_OF_NAMES = 23
#: Inner folders of wings that only the wing around them uses.
_NOT_DRAWN = frozenset(
    [
        "archive",
        "assembly",
        "changes",
        "checks",
        "emission",
        "formats",
        "fusion",
        "integrity",
        "layouts",
        "loop_ir",
        "lowering",
        "paths",
        "references",
        "rules",
        "schedules",
        "sections",
        "sharing",
        "tensor_ir",
    ]
)
#: Folders whose names are not those of common values, too ("session.run").
_ROOMS = "|".join(
    path.name
    for path in sorted((ROOT / "ortpkg").iterdir())
    if (path / "__init__.py").exists() and path.name not in ("graph", "session")
)
_MODULE = re.compile(rf"`(?:ortpkg\.)?((?:{_ROOMS})(?:\.\w+)+)(?<!\.json)(?<!\.toml)(?<!\.py)`")


@functools.cache
def _files() -> list[Path]:
    folders = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*"))]
    return [path for path in (*ROOT.iterdir(), *folders) if path.is_file()]


def _texts() -> list[Path]:
    return [path for path in _files() if path.suffix in (".md", ".py") and path != Path(__file__)]


def _ends_of(path: str) -> list[str]:
    """``c``, ``b/c`` and ``a/b/c`` of ``a/b/c``."""
    parts = path.split("/")
    return ["/".join(parts[first:]) for first in range(len(parts))]


@functools.cache
def _names() -> frozenset[str]:
    """The end of the path of each file, and of each folder that holds one."""
    files = [path.relative_to(ROOT) for path in _files()]
    places = {*files, *(folder for path in files for folder in path.parents)} - {Path()}
    return frozenset(end for place in places for end in _ends_of(place.as_posix()))


def _is_path(text: str) -> bool:
    return text.endswith(_ENDINGS) or (text.split("/")[0] in FOLDERS and "/" in text)


def _is_module_or_in_one(name: str) -> bool:
    """Whether ``a.b.c`` is a module of ortpkg, or some name ``c`` in the module ``a.b``."""
    for known in (name, name.rpartition(".")[0], name.rpartition(".")[0].rpartition(".")[0]):
        place = ROOT.joinpath("ortpkg", *known.split("."))
        if place.is_dir() and known == name:
            return True
        for module in (place.with_suffix(".py"), place / "__init__.py"):
            if module.exists():
                rest = name.removeprefix(known).strip(".").split(".")[0]
                return re.search(rf"\b{rest}\b", module.read_text("utf-8")) is not None
    return False


def _missing(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    quoted = [each.rstrip("/") for each in _QUOTED.findall(text) if _is_path(each)]
    found = [each for each in quoted if each not in _names() and each not in _ELSEWHERE]
    found += [each for each in _MODULE.findall(text) if not _is_module_or_in_one(each)]
    if path.suffix == ".md":
        links = [each for each in _LINK.findall(text) if "://" not in each]
        found += [each for each in links if not (path.parent / each).exists()]
    return found


def test_named_files_and_modules_are_there() -> None:
    missing = {path.relative_to(ROOT).as_posix(): _missing(path) for path in _texts()}
    assert {path: names for path, names in missing.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`package/rules.py` and [the map](docs/architecture.md)", []),
        ("`package/no_rules.py`, `ortpkg/nowhere/`", ["package/no_rules.py", "ortpkg/nowhere"]),
        ("[gone](docs/gone.md#part), [other](https://example.org/a.md)", ["docs/gone.md"]),
        ("``package.rules``, `ortpkg.package.rules.Rule`, `manifest.json`", []),
        (
            "``package.no_rules``, ``package.rules.NoRule``",
            ["package.no_rules", "package.rules.NoRule"],
        ),
        ("`scale.ray.PackageModel` and `scale.ray.NoModel` of a room", ["scale.ray.NoModel"]),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, text: str, missing: list[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "architecture.md").touch()
    (tmp_path / "text.md").write_text(text, encoding="utf-8")
    assert _missing(tmp_path / "text.md") == missing


def _contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return contracts


def test_the_picture_of_the_wings_is_the_linters() -> None:
    """docs/architecture.md names every wing and room, in lines that are ordered like the layers."""
    document = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = document.split("```")[1].splitlines()
    line_of = {
        word: number
        for number, line in enumerate(picture)
        for word in re.findall(r"\w+", line[:_WIDTH_OF_NAMES])
    }
    layers = [contract for contract in _contracts() if _is_of_the_picture(contract)]
    assert len(layers) == 7
    for contract in layers:
        floors = [_names_in(floor) for floor in contract["layers"]]
        drawn = [[line_of[name] for name in floor if name in line_of] for floor in floors]
        lines = [line for floor in drawn for line in sorted(floor)]
        assert lines == sorted(lines), contract["name"]
    wings = {path.parent.name for path in (ROOT / "ortpkg").glob("*/__init__.py")}
    rooms = {path.parent.name for path in (ROOT / "ortpkg").glob("*/*/__init__.py")}
    assert wings - set(line_of) == set()
    assert rooms - set(line_of) - _NOT_DRAWN == set()


def _is_of_the_picture(contract: dict[str, Any]) -> bool:
    return "docs/architecture.md" in contract["name"] or contract["name"].startswith("Rooms of")


def _names_in(floor: str) -> list[str]:
    return [name.strip().removeprefix("ortpkg.") for name in floor.split("|")]
