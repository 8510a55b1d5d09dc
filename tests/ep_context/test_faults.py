"""Plug-ins that break while contexts are made or loaded: an error names them, we live."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import (
    CompileError,
    ExecutionProviderError,
    InvalidSessionOptionError,
    OrtpkgError,
    StatusCode,
)
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    FusedNode,
    GraphViewer,
    NodeComputeInfo,
)
from tests.ep_context.conftest import EXPECTED, X
from tests.ep_context.fake_compiler import FakeCompiler, run, state_of


class _Broken(FakeCompiler):
    """The fake compiler as a plug-in, of which one answer is something else."""

    backend = "fake"

    def __init__(self, **answers: Callable[[], Any]) -> None:
        super().__init__()
        self._answers = answers

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        answer: list[ComputeCapability] = self._answers.get(
            "capability", lambda: super(_Broken, self).get_capability(viewer, types_of)
        )()
        return answer

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        answer: list[NodeComputeInfo] = self._answers.get(
            "compile", lambda: super(_Broken, self).compile(fused_nodes)
        )()
        return answer

    def export_context(self, compiled: Any, fused: FusedNode) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._answers.get(
            "export", lambda: super(_Broken, self).export_context(compiled, fused)
        )()
        return answer

    def describe_environment(self) -> ContextDescriptor:
        answer: ContextDescriptor = self._answers.get(
            "environment", lambda: super(_Broken, self).describe_environment()
        )()
        return answer

    def get_compiled_model_compatibility_info(self, graph: Graph) -> str:
        del graph
        answer: str = self._answers.get("info", lambda: "fake 1")()
        return answer


def _raises(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    "answer", [_raises(SystemExit(3)), _raises(ValueError("no idea")), lambda: 5]
)
def test_a_plug_in_that_cannot_say_what_its_models_fit_fails_the_session(
    model: Path, answer: Callable[[], Any]
) -> None:
    with pytest.raises(ExecutionProviderError, match="FakeExecutionProvider"):
        state_of(model, _Broken(info=answer), ep_context_enable="1")
    assert [path.name for path in model.parent.iterdir()] == [model.name]


@pytest.mark.parametrize("answer", [["abc"], [None], ["abc", "def"]])
def test_a_plug_in_that_claims_or_compiles_into_something_else_is_named(
    model: Path, answer: list[Any]
) -> None:
    with pytest.raises(ExecutionProviderError, match="FakeExecutionProvider"):
        state_of(model, _Broken(capability=lambda: answer))
    with pytest.raises((CompileError, ExecutionProviderError), match="FakeExecutionProvider"):
        state_of(model, _Broken(compile=lambda: answer))


@pytest.mark.parametrize("answer", [None, {"graph": "text"}, {5: b"x"}, ["graph"]])
def test_a_plug_in_that_keeps_something_else_than_parts_is_named(model: Path, answer: Any) -> None:
    with pytest.raises(CompileError, match="FakeExecutionProvider"):
        state_of(model, _Broken(export=lambda: answer), ep_context_enable="1")
    assert [path.name for path in model.parent.iterdir()] == [model.name]


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    "broken",
    [
        _Broken(environment=_raises(ValueError("no driver"))),
        _Broken(environment=_raises(SystemExit(3))),
        _Broken(environment=lambda: None),
        FakeCompiler(on_import=lambda: sys.exit(3)),
    ],
)
def test_a_load_that_fails_for_any_reason_is_an_invalid_graph(
    model: Path, broken: FakeCompiler
) -> None:
    state_of(model, FakeCompiler(), ep_context_enable="1")

    with pytest.raises(OrtpkgError, match="FakeExecutionProvider") as caught:
        state_of(model.parent / "net_ctx.onnx", broken)
    assert caught.value.code is StatusCode.INVALID_GRAPH


def test_a_cached_context_whose_load_exits_is_compiled_anew(model: Path, tmp_path: Path) -> None:
    entries = {"ortpkg_ep_context_cache": str(tmp_path / "cache")}
    state_of(model, FakeCompiler(), **entries)
    broken = FakeCompiler(on_import=lambda: sys.exit(3))

    np.testing.assert_allclose(run(state_of(model, broken, **entries), X)[0], EXPECTED, rtol=1e-5)
    assert len(broken.compiled) == 2


@pytest.mark.requirement("E14")
@pytest.mark.parametrize("name", ["n" * 300 + ".onnx", "a\0b.onnx"])
def test_a_context_path_that_can_be_no_file_is_refused_before_anything_is_compiled(
    model: Path, name: str
) -> None:
    provider = FakeCompiler()

    with pytest.raises(InvalidSessionOptionError, match=r"ep\.context_file_path"):
        state_of(
            model, provider, ep_context_enable="1", ep_context_file_path=str(model.parent / name)
        )
    assert provider.compiled == []


@pytest.mark.parametrize("named", [999, "MatMul_0", -1])
def test_supported_nodes_that_are_not_there_are_an_error_that_names_them(
    model: Path, named: Any
) -> None:
    class Naming(FakeCompiler):
        backend = "fake"

        def supported_nodes(self, viewer: GraphViewer, types_of: Any) -> list[Any]:
            return [*super().supported_nodes(viewer, types_of), named]

    with pytest.raises(
        ExecutionProviderError, match=r"supported_nodes names .*no node of that index"
    ) as caught:
        state_of(model, Naming())
    assert str(named) in str(caught.value)
