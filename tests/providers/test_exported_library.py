"""Functions of fused nodes lie in a library file, and are found there by the nodes' names."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.errors import CompileError, EpContextError
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.providers.execution_provider import FusedNode, MetaDef
from ortpkg.runtime.providers.llvm.llvm_execution_provider import LLVMExecutionProvider
from ortpkg.runtime.providers.partition_body import fused_node_of
from tests.machine_code.native_programs import Context

pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")
_X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _fused(name: str, operator: str = "Tanh") -> FusedNode:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    net (float[n, 3] x) => (float[n, 3] y) {{ t = Mul (x, x)  y = {operator} (t) }}"""
    model = load_model(onnx.parser.parse_model(text).SerializeToString())
    infer_types(model)
    meta = MetaDef(name=name, inputs=("x",), outputs=("y",))
    return fused_node_of(model.graph, list(model.graph.nodes), meta, "LLVMExecutionProvider")


def _run(provider: LLVMExecutionProvider, fused: FusedNode, library: Path) -> np.ndarray:
    info = provider.add_func_info(fused, library)
    (made,) = info.compute(
        info.create_state(fused.node.name), [_X], cast(OpKernelContext, Context())
    )
    return np.asarray(made)


@pytest.mark.requirement("P08", "P09")
def test_functions_are_found_by_the_names_of_their_nodes(tmp_path: Path) -> None:
    library = tmp_path / "functions.bin"
    nodes = [_fused("first"), _fused("second", "Sigmoid")]
    LLVMExecutionProvider().compile_to_library(nodes, library)
    provider = LLVMExecutionProvider()
    np.testing.assert_allclose(_run(provider, nodes[0], library), np.tanh(_X * _X), rtol=1e-6)
    expected = 1 / (1 + np.exp(-_X * _X))
    np.testing.assert_allclose(_run(provider, nodes[1], library), expected, rtol=1e-6)
    provider.close()


def test_what_the_library_does_not_have_or_has_of_another_node_is_told(tmp_path: Path) -> None:
    library = tmp_path / "functions.bin"
    provider = LLVMExecutionProvider()
    provider.compile_to_library([_fused("first")], library)
    with pytest.raises(EpContextError, match="has no context of partition 'third'; it has 'first'"):
        provider.add_func_info(_fused("third"), library)
    with pytest.raises(EpContextError, match="does not fit node 'first': its model graph was"):
        provider.add_func_info(_fused("first", "Sigmoid"), library)
    with pytest.raises(EpContextError, match="there is no file"):
        provider.add_func_info(_fused("first"), tmp_path / "absent.bin")


def test_code_for_another_machine_is_not_loaded(tmp_path: Path) -> None:
    library = tmp_path / "functions.bin"
    far = LLVMExecutionProvider(options={"target": "windows-x86_64_v3"})
    far.compile_to_library([_fused("first")], library)
    with pytest.raises(EpContextError, match="architecture was 'windows-x86_64_v3'"):
        LLVMExecutionProvider().add_func_info(_fused("first"), library)


def test_two_nodes_of_one_name_leave_the_library_as_it_was(tmp_path: Path) -> None:
    library = tmp_path / "functions.bin"
    library.write_bytes(b"as before")
    with pytest.raises(CompileError, match="two fused nodes are called 'first'"):
        LLVMExecutionProvider().compile_to_library([_fused("first"), _fused("first")], library)
    assert library.read_bytes() == b"as before"


def test_a_changed_byte_anywhere_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    library = tmp_path / "functions.bin"
    provider, fused = LLVMExecutionProvider(), _fused("first")
    provider.compile_to_library([fused], library)
    data = library.read_bytes()
    for place in [*range(0, 64, 4), *range(64, len(data), max(len(data) // 60, 1))]:
        library.write_bytes(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
        try:
            found = _run(provider, fused, library)
        except EpContextError:
            continue
        np.testing.assert_allclose(found, np.tanh(_X * _X), rtol=1e-6)
    for length in (0, 1, 40, 60, len(data) // 2, len(data) - 1):
        library.write_bytes(data[:length])
        with pytest.raises(EpContextError):
            provider.add_func_info(fused, library)
