"""Every public name of onnxruntime's Python module is ortpkg's, or docs/interop.md says why."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any

import pytest

import ortpkg
from tests.interop.python_api.signatures import Parameter, overloads, public_members, takes

onnxruntime: Any = pytest.importorskip("onnxruntime", minversion="1.31")
_PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop.md"


def absent_names() -> set[str]:
    """The names in the first column of the page's table of absent ones."""
    text = _PAGE.read_text(encoding="utf-8")
    table = text.partition("| absent | why |")[2].partition("\n\n")[0]
    return {
        name
        for row in table.splitlines()[2:]
        for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    }


@pytest.mark.interop
def test_every_name_is_there_or_explained() -> None:
    public = {name for name in dir(onnxruntime) if not name.startswith("_")}
    missing = {name for name in public if name not in dir(ortpkg)} - absent_names()
    assert not missing - {"backend"}  # which is here, too; some test imported theirs


def test_sub_packages_are_there_or_explained() -> None:
    theirs = {each.name for each in pkgutil.iter_modules(onnxruntime.__path__) if each.ispkg}
    ours = {each.name for each in pkgutil.iter_modules(ortpkg.__path__) if each.ispkg}
    assert {"backend", "capi", "quantization"} <= theirs
    assert not theirs - ours - absent_names()


def test_nothing_that_is_there_is_called_absent() -> None:
    assert not absent_names() & set(ortpkg.__all__)


@pytest.mark.interop
def test_enumerations_have_the_same_names_and_numbers() -> None:
    for name in dir(onnxruntime):
        members = getattr(getattr(onnxruntime, name), "__members__", None)
        ours = getattr(ortpkg, name, None)
        if not members or ours is None:
            continue
        assert isinstance(ours, type)
        assert issubclass(ours, IntEnum | IntFlag), name
        assert {key: int(value) for key, value in ours.__members__.items()} == {
            key: int(value.value) for key, value in members.items()
        }, name


# --- members --------------------------------------------------------------------------------------


def _classes() -> list[str]:
    found = [name for name in dir(onnxruntime) if not name.startswith("_")]
    found = [name for name in found if inspect.isclass(getattr(onnxruntime, name))]
    return [name for name in found if name not in absent_names()]


def _functions() -> list[str]:
    found = [name for name in dir(onnxruntime) if not name.startswith("_")]
    found = [name for name in found if inspect.isroutine(getattr(onnxruntime, name))]
    return [name for name in found if name not in absent_names()]


def _members_of_ours(name: str) -> set[str]:
    """Those of the class, and those that only its objects have."""
    kind = getattr(ortpkg, name)
    made: dict[str, Callable[[], Any]] = {
        "OrtArenaCfg": lambda: ortpkg.OrtArenaCfg({}),
        "OrtEpDevice": lambda: ortpkg.get_ep_devices()[0],
        "OrtMemoryInfo": lambda: ortpkg.OrtMemoryInfo(
            "Cpu", ortpkg.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ortpkg.OrtMemType.DEFAULT
        ),
    }
    members = getattr(kind, "__members__", {})
    example: Any = (
        next(iter(members.values()), None) if members else made[name]() if name in made else None
    )
    return set(dir(kind)) | set(members) | (set() if example is None else set(dir(example)))


@pytest.mark.interop
@pytest.mark.parametrize("name", _classes())
def test_every_member_of_a_class_is_there_or_explained(name: str) -> None:
    ours = _members_of_ours(name)
    missing = {
        member for member in public_members(getattr(onnxruntime, name)) if member not in ours
    }
    assert not {f"{name}.{member}" for member in missing} - absent_names()


@pytest.mark.interop
@pytest.mark.parametrize("name", [*_classes(), *_functions()])
def test_what_can_be_called_there_can_be_called_here(name: str) -> None:
    """Every way to give arguments: names, places and defaults.

    Ours may have more, where nobody needs to give them.
    """
    theirs, ours = getattr(onnxruntime, name), getattr(ortpkg, name)
    pairs = [(name, theirs, ours)]
    if inspect.isclass(theirs):
        ways = overloads(theirs.__init__)
        is_made_by_calls = (
            any(not each.name.startswith("*") for way in ways for each in way) or [] in ways
        )
        pairs = [
            (f"{name}({ways[0][0].name if ways[0] else ''})", theirs.__init__, ours.__init__)
        ] * is_made_by_calls
        methods = [
            each for each in public_members(theirs) if inspect.isroutine(getattr(theirs, each))
        ]
        here = [each for each in methods if hasattr(ours, each)]
        pairs += [(f"{name}.{each}", getattr(theirs, each), getattr(ours, each)) for each in here]
    problems = {}
    for what, their_function, our_function in pairs:
        ways = overloads(their_function)
        assert ways, what
        for way in ways:
            reasons = [takes(mine, way) for mine in overloads(our_function)]
            if all(reasons) and what not in absent_names():
                problems[what] = (way, reasons)
    assert not problems


def test_signatures_are_read_and_compared() -> None:
    native = (
        "f(self: a.B, x: typing.SupportsInt | None, y: a.C[int, str] = <C.D: 3>, arg2: str = 'a')"
        " -> None"
    )

    def f(self: object, x: int, y: int = 3, z: str = "a", more: int = 0) -> None:
        """Ours."""

    class Native:
        """Stands for a function of native code."""

        __doc__ = native

    (theirs,) = overloads(Native())
    assert theirs == [Parameter("x"), Parameter("y", "3"), Parameter("", "'a'")]
    (ours,) = overloads(f)
    assert takes(ours, theirs[:2]) == ""
    assert takes(ours, [Parameter("q")]) == "no argument 'q'"
    assert takes(ours, [Parameter("y", "3")]) == "the argument 'y' has another place"
    assert takes(ours, [Parameter("x"), Parameter("y", "4")]) == "'y' is 3 by default, not 4"
    assert takes(ours, []) == "['x'] must be given"
