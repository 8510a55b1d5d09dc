"""What an opset says of an operator."""

from __future__ import annotations

import onnx.defs
import pytest

from ortpkg.graph.onnx_operators import NEWEST_OPSETS, ONNX_VERSION
from ortpkg.graph.onnx_opsets import (
    OLD_ONNXRUNTIME_ADDITIONS,
    ONNXRUNTIME_ADDITIONS,
    OperatorState,
    deprecating_opset,
    first_opset,
    is_known_everywhere,
    newest_opset_here,
    operator_state,
)


@pytest.mark.parametrize(
    ("op_type", "opset", "state"),
    [
        ("Gelu", 20, OperatorState.DEFINED),
        ("Gelu", 19, OperatorState.UNDEFINED),
        ("NoSuchOp", 17, OperatorState.UNDEFINED),
        ("NoSuchOp", 1000, OperatorState.UNKNOWN),
        ("Relu", None, OperatorState.UNDEFINED),
        ("Upsample", 10, OperatorState.DEPRECATED),
        ("Upsample", 9, OperatorState.DEFINED),
        ("GroupNormalization", 18, OperatorState.DEFINED),
        ("LayerNormalization", 13, OperatorState.ADDED),
        ("LayerNormalization", 17, OperatorState.DEFINED),
        ("Affine", 9, OperatorState.ADDED),
        ("Affine", 10, OperatorState.UNDEFINED),
    ],
)
def test_an_opset_defines_an_operator_or_not(
    op_type: str, opset: int | None, state: OperatorState
) -> None:
    assert operator_state("", op_type, opset) is state


def test_what_onnxruntime_adds_to_the_domain_of_onnx_is_known() -> None:
    """By its own definitions: those up to opset 10 have a second, which deprecates them."""
    onnxruntime = pytest.importorskip("onnxruntime")
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    if not onnxruntime.__version__.startswith("1.31."):
        pytest.skip("the list is that of onnxruntime 1.31")
    versions: dict[str, set[int]] = {}
    for each in state.get_all_operator_schema():
        if each.domain == "":
            versions.setdefault(each.name, set()).add(each.since_version)
    known = {each.name for each in onnx.defs.get_all_schemas_with_history() if not each.domain}
    added = {
        name
        for name, found in versions.items()
        if name not in known or (1 in found and not onnx.defs.has(name, 1))
    }
    assert {
        name for name in added if 10 in versions[name] and name not in known
    } == OLD_ONNXRUNTIME_ADDITIONS
    assert added - OLD_ONNXRUNTIME_ADDITIONS == ONNXRUNTIME_ADDITIONS


def test_the_first_opset_of_an_operator_is_known() -> None:
    assert (
        first_opset("", "Gelu"),
        first_opset("ai.onnx.ml", "Scaler"),
        first_opset("", "NoSuchOp"),
    ) == (20, 1, None)
    assert (deprecating_opset("", "Upsample"), deprecating_opset("", "Resize")) == (10, None)


def test_the_newest_opset_is_that_of_the_installed_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    known = onnx.defs.onnx_opset_version()
    for version in (ONNX_VERSION, "0.0"):
        monkeypatch.setattr("importlib.metadata.version", lambda _name, version=version: version)
        newest_opset_here.cache_clear()
        assert newest_opset_here() == (NEWEST_OPSETS[""] if version == ONNX_VERSION else known)
    newest_opset_here.cache_clear()
    assert [is_known_everywhere(each) for each in (0, 1, 24, 25)] == [False, True, True, False]
