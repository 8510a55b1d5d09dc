"""Plug-ins' wrong answers are copied, or refused and told, never taken in silence."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg.foundations.errors import ExecutionProviderError, LimitExceededError, RunError
from ortpkg.foundations.isolation import run_watch
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry
from ortpkg.runtime.kernels.kernel_registry import KernelDef, KernelRegistry
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.session_state import SessionState, create_session_state
from tests.ep_context.fake_compiler import run

NAME = "OddExecutionProvider"
TEXT = """<ir_version: 10, opset_import: ["" : 17]>
g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) {
    y = Mul(x, x)
    z = Neg(y)
}"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Compute = Callable[[Any], Any]


class Partition:
    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        del context
        returned: Sequence[Any] = self._compute(inputs[0])
        return returned


class Odd(CompilingProvider):
    """Takes everything; ``compute`` gets the input and returns what it likes."""

    backend = "odd"
    context_sources = (NAME,)

    def __init__(self, compute: Compute = lambda x: [x * x, -x * x]) -> None:
        super().__init__(NAME)
        self._compute = compute

    def supported_nodes(self, viewer: GraphViewer, types_of: Any) -> Any:
        del types_of
        return [node.index for node in viewer.nodes]

    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        del fused
        return Partition(self._compute)

    def describe_environment(self) -> ContextDescriptor:
        return ContextDescriptor(ep=NAME, sdk_version="1", device="CPU")

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, bytes]:
        del compiled, fused
        return {"all": b"1"}

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:
        del entry
        return self.compile_partition(fused)


def state_of(provider: ExecutionProvider, text: str = TEXT, **entries: str) -> SessionState:
    options = SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(key.replace("__", "."), value)
    model = load_model(onnx.parser.parse_model(text).SerializeToString())
    return create_session_state(model, options, [provider, CPUExecutionProvider()])


# --- what compute returns -------------------------------------------------------------------------


def views_of_one(x: Any) -> list[Any]:
    both = np.concatenate([x, x[:1]])
    return [both[:2], both[1:]]


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: [x, x],
        lambda x: [x + 1] * 2,
        views_of_one,
        lambda x: [np.broadcast_to(np.float32(1), (2, 3)), x.T.copy().T],
        lambda x: [(x + 1).view(np.recarray), np.ma.masked_array(x, x > 3)],
        lambda x: [x[::-1], np.concatenate([x, x])[::2]],
    ],
    ids=[
        "its input",
        "one array twice",
        "views of one array",
        "read-only",
        "classes of numpy's",
        "strided",
    ],
)
def test_outputs_are_arrays_of_their_own(compute: Compute) -> None:
    x = X.copy()
    expected = [np.array(each) for each in compute(x)]
    y, z = run(state_of(Odd(compute)), x)
    for made, meant in zip((y, z), expected, strict=True):
        assert type(made) is np.ndarray
        assert made.flags.writeable
        np.testing.assert_array_equal(made, meant)
    assert not any(np.may_share_memory(*pair) for pair in ((y, z), (x, y), (x, z)))


def test_memory_of_an_earlier_result_that_is_in_use_is_an_error() -> None:
    kept = np.zeros((2, 3), np.float32)

    def compute(x: Any) -> list[Any]:
        np.multiply(x, x, out=kept)
        return [kept, -kept]

    state = state_of(Odd(compute))
    y, _ = run(state, X)
    with pytest.raises(
        RunError, match=f"{NAME} returned 'y' in memory of a result that it returned before"
    ):
        run(state, X + 1)
    del y
    # whoever had it is done with it
    np.testing.assert_array_equal(run(state, X + 1)[0], (X + 1) ** 2)


def test_a_constant_that_is_returned_in_each_run_is_copied_for_each() -> None:
    constant = np.ones((2, 3), np.float32)
    constant.flags.writeable = False
    state = state_of(Odd(lambda x: [constant, x + 1]))
    first, second = run(state, X)[0], run(state, X)[0]
    first += 1
    np.testing.assert_array_equal(second, constant)


@pytest.mark.parametrize(
    ("raised", "told"),
    [(SystemExit(3), "SystemExit: 3"), (KeyError("a"), "KeyError: 'a'"), (ValueError("no"), "no")],
)
def test_what_compute_raises_is_told_so_that_it_says_something(
    raised: BaseException, told: str
) -> None:
    def compute(_x: Any) -> Any:
        raise raised

    with pytest.raises(RunError, match=f"failed: {told}$"):
        run(state_of(Odd(compute)), X)


def test_a_result_that_comes_after_the_time_limit_is_none_and_a_program_may_end_itself_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As ``ortpkg run --no-isolate`` does: nothing else ends code of others in this process."""
    monkeypatch.setattr(run_watch, "_GRACE_S", 0.05)
    ended = threading.Event()

    def compute(x: Any) -> list[Any]:
        assert ended.wait(30)
        return [x + 1, x + 2]

    state = state_of(Odd(compute))
    with (
        run_watch.last_resort(lambda _error: ended.set()),
        pytest.raises(LimitExceededError, match=r"passed its time limit of 0\.1 s"),
    ):
        state.executable.run([X], (), RunControl(timeout_s=0.1))
    assert ended.is_set()
    np.testing.assert_array_equal(state.executable.run([X], (), RunControl(timeout_s=30))[0], X + 1)


def test_what_a_future_brings_is_held_against_the_same() -> None:
    class Later(Odd):
        def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
            def compute(_state: Any, inputs: Sequence[Any], _context: OpKernelContext) -> Any:
                future: Future[Any] = Future()
                future.set_result([inputs[0], inputs[0]])
                return future

            return [NodeComputeInfo(compute=compute, is_async=True) for _ in fused_nodes]

    y, z = run(state_of(Later()), X)
    assert not np.may_share_memory(y, z)
    assert not np.may_share_memory(X, y)


TEXTS = """<ir_version: 10, opset_import: ["" : 20]>
g (string[2] x) => (string[2] y) { y = StringConcat(x, x) }"""


@pytest.mark.parametrize(
    "made",
    [
        np.array(["a", None], object),
        np.array(["a", 1], object),
        np.array([b"a", b"b"]),
        np.array(["a"], object),
        np.array([["a", "b"]]),
    ],
    ids=["nothing", "number", "bytes", "size", "rank"],
)
def test_texts_are_texts(made: Any) -> None:
    x = np.array(["a", "b"], object)
    np.testing.assert_array_equal(
        run(state_of(Odd(lambda x: [np.array(["c", "d"])]), TEXTS), x)[0], ["c", "d"]
    )
    with pytest.raises(
        RunError, match=rf"it gets from {NAME} 'y' as .*, declared is tensor\(string\)\[2\]"
    ):
        run(state_of(Odd(lambda x: [made]), TEXTS), x)


SPLIT = """<ir_version: 10, opset_import: ["" : 17]>
g (float[2, 3] x) => (float[1, 3] y, float[1, 3] z) { y, z = Split<axis = 0>(x) }"""


def same_twice(x: Any) -> Any:
    first = x[:1] + 1
    return first, first


@pytest.mark.parametrize(
    "kernel", [same_twice, lambda x: (x[:1], x[:1]), lambda x: ((x[:1]).view(np.recarray), x[1:])]
)
def test_outputs_of_a_kernel_are_arrays_of_their_own_too(kernel: Callable[[Any], Any]) -> None:
    class Computing(ExecutionProvider):
        backend = "odd"

        @property
        def kernel_registry(self) -> KernelRegistry:
            factory: Any = lambda _info: lambda _context, x, *_sizes: kernel(x)  # noqa: E731
            return KernelRegistry(
                [KernelDef(op_type="Split", domain="", since=(13,), factory=factory)]
            )

    y, z = run(state_of(Computing(NAME), SPLIT), X)
    for made, meant in zip((y, z), kernel(X), strict=True):
        assert type(made) is np.ndarray
        np.testing.assert_array_equal(made, meant)
    assert not any(np.may_share_memory(*pair) for pair in ((y, z), (X, y), (X, z)))


# --- what it claims and compiles ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (None, "supported_nodes returned 'None' where a collection of nodes' indices"),
        ("01", "supported_nodes returned '01' where"),
        ([[0]], r"supported_nodes names '\[0\]'"),
        ([{}], "supported_nodes names '{}'"),
        ([True], "supported_nodes names 'True'"),
        ([1.0], r"supported_nodes names '1\.0'"),
    ],
)
def test_what_names_no_nodes_is_an_error_that_says_what_belongs_there(
    named: Any, told: str
) -> None:
    class Naming(Odd):
        def supported_nodes(self, viewer: GraphViewer, types_of: Any) -> Any:
            del viewer, types_of
            return named

    with pytest.raises(ExecutionProviderError, match=f"^{NAME}: {told}"):
        state_of(Naming())


def test_nodes_that_are_named_twice_or_by_numbers_of_numpy_are_named_once() -> None:
    class Naming(Odd):
        def supported_nodes(self, viewer: GraphViewer, types_of: Any) -> Any:
            return np.array([*super().supported_nodes(viewer, types_of)] * 2)

    (partition,) = state_of(Naming()).partitions
    assert partition.op_types == ("Mul", "Neg")


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        (
            MetaDef(name="a", inputs=("x", "x"), outputs=("y", "z")),
            "a MetaDef 'a' that has the same input",
        ),
        (
            MetaDef(name="a", inputs=("x",), outputs=("y", "z", "z")),
            "a MetaDef 'a' that has the same input or output",
        ),
        (MetaDef(name="", inputs=("x",), outputs=("y", "z")), "where a MetaDef with a name"),
        (MetaDef(name=None, inputs=("x",), outputs=("y", "z")), "where a MetaDef with a name"),  # type: ignore[arg-type]
        (MetaDef(name="a", inputs="x", outputs=("y", "z")), "where a MetaDef with a name"),  # type: ignore[arg-type]
        ("a", "where a MetaDef with a name"),
    ],
)
def test_a_meta_definition_that_connects_nothing_is_the_plugins_fault(meta: Any, told: str) -> None:
    class Claiming(Odd):
        def get_capability(self, viewer: GraphViewer, types_of: Any) -> list[ComputeCapability]:
            del types_of
            return [
                ComputeCapability(
                    node_indices=tuple(node.index for node in viewer.nodes), meta_def=meta
                )
            ]

    with pytest.raises(ExecutionProviderError, match=f"{NAME}: get_capability returned .*{told}"):
        state_of(Claiming())


@pytest.mark.parametrize("part", ["compute", "create_state", "release_state"])
def test_what_cannot_be_called_is_refused_before_it_is_called(part: str) -> None:
    class Empty(Odd):
        def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
            functions: dict[str, Any] = {"compute": lambda *_: [], part: None}
            return [NodeComputeInfo(**functions) for _ in fused_nodes]

    with pytest.raises(
        ExecutionProviderError, match=f"NodeComputeInfo whose {part} is no function"
    ):
        state_of(Empty())


# --- what it keeps --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (None, "returned NoneType where a ContextDescriptor belongs"),
        (
            {"ep": "OtherExecutionProvider"},
            ": ep is .*OtherExecutionProvider.* where .*OddExecutionProvider.* belongs",
        ),
        ({"sdk_version": 3}, ": sdk_version is int where a text belongs"),
        ({"options": {"a": 1}}, ": option .*a.* is int where a text belongs"),
        ({"options": {1: "a"}}, ": option .*1.* is int where a text belongs"),
        ({"options": None}, ": options are NoneType where a mapping of texts belongs"),
    ],
)
def test_an_environment_that_cannot_be_compared_later_is_refused(
    changes: Any, told: str, tmp_path: Path
) -> None:
    class Describing(Odd):
        def describe_environment(self) -> ContextDescriptor:
            found: Any = (
                None if changes is None else replace(super().describe_environment(), **changes)
            )
            described: ContextDescriptor = found
            return described

    with pytest.raises(
        ExecutionProviderError, match=f"{NAME} failed to compile: .*describe_environment.*{told}"
    ):
        state_of(Describing(), ortpkg__ep_context_cache=str(tmp_path / "cache"))


def test_a_context_that_is_imported_as_nothing_is_dropped_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Importing(Odd):
        def import_context(self, entry: ContextEntry, fused: FusedNode) -> Any:
            del entry, fused

    cache = str(tmp_path / "cache")
    state_of(Odd(), ortpkg__ep_context_cache=cache)
    with caplog.at_level(logging.WARNING):
        y, _ = run(state_of(Importing(), ortpkg__ep_context_cache=cache), X)
    np.testing.assert_array_equal(y, X * X)
    assert "import_context returned NoneType, which has no compute()" in caplog.text


def test_what_exits_where_it_is_to_be_kept_is_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Exporting(Odd):
        def export_context(
            self, compiled: CompiledPartition, fused: FusedNode
        ) -> Mapping[str, bytes]:
            del compiled, fused
            sys.exit("licence expired")

    with caplog.at_level(logging.WARNING):
        y, _ = run(state_of(Exporting(), ortpkg__ep_context_cache=str(tmp_path / "cache")), X)
    np.testing.assert_array_equal(y, X * X)
    assert "cannot be kept: 'licence expired'" in caplog.text
    assert list((tmp_path / "cache").glob("*.bin")) == []
