"""Every public name of onnxruntime's Python module is ortpkg's too, or docs/interop.md says why not."""

from __future__ import annotations

import re
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any

import pytest

import ortpkg

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop.md"


def absent_names() -> set[str]:
    """The names in the first column of the page's table of absent ones."""
    text = _PAGE.read_text(encoding="utf-8")
    table = text.partition("| absent | why |")[2].partition("\n\n")[0]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


@pytest.fixture
def onnxruntime() -> Any:
    return pytest.importorskip("onnxruntime", minversion="1.31")


@pytest.mark.interop
def test_every_name_is_there_or_explained(onnxruntime: Any) -> None:
    public = {name for name in dir(onnxruntime) if not name.startswith("_")}
    missing = {name for name in public if name not in dir(ortpkg)} - absent_names()
    assert not missing - {"backend", "quantization", "tools", "transformers", "datasets"}  # imported by some test


def test_nothing_that_is_there_is_called_absent() -> None:
    assert not absent_names() & set(ortpkg.__all__)


@pytest.mark.interop
def test_enumerations_have_the_same_names_and_numbers(onnxruntime: Any) -> None:
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


@pytest.mark.interop
@pytest.mark.parametrize(
    "kind",
    ["InferenceSession", "OrtValue", "IOBinding", "ModelCompiler", "AdapterFormat", "OrtEpDevice", "OrtHardwareDevice",
     "OrtMemoryInfo", "OrtArenaCfg", "LoraAdapter", "OrtExternalInitializerInfo"],
)  # fmt: skip
def test_classes_have_the_same_methods(onnxruntime: Any, kind: str) -> None:
    theirs = {name for name in dir(getattr(onnxruntime, kind)) if not name.startswith("_")}
    # Attributes of ours that instances get are not on the class.
    ours = set(dir(getattr(ortpkg, kind))) | set(getattr(getattr(ortpkg, kind), "__slots__", ()))
    made = {"OrtMemoryInfo", "OrtArenaCfg", "OrtEpDevice"}
    missing = theirs - ours - _NOT_HERE.get(kind, set())
    if kind in made:
        missing = {name for name in missing if name not in vars(_example(kind))}
    assert not missing


#: Methods of classes that are about devices, streams or files of contexts that are not here.
_NOT_HERE: dict[str, set[str]] = {
    "InferenceSession": {"release_captured_graph"},
    "ModelCompiler": {"set_ep_context_data_write_func", "clear_ep_context_data_write_func"},
}


def _example(kind: str) -> Any:
    if kind == "OrtArenaCfg":
        return ortpkg.OrtArenaCfg(0, -1, -1, -1)
    if kind == "OrtEpDevice":
        return ortpkg.get_ep_devices()[0]
    return ortpkg.OrtMemoryInfo("Cpu", ortpkg.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ortpkg.OrtMemType.DEFAULT)
