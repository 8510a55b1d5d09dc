"""What is said where an execution provider of onnxruntime's compiles nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import onnx.parser
import pytest

from ortpkg.foundations.ep_names import QNN_EP
from ortpkg.foundations.errors import CompileError
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers import onnxruntime_compiler
from ortpkg.runtime.providers.onnxruntime_compiler import OnnxRuntimeCompiler


def _refuse(*_: object, **__: object) -> None:
    raise RuntimeError("no nodes were compiled")


@pytest.mark.parametrize(
    ("shape", "ending"),
    [
        (
            "batch,3,length",
            (
                "takes fixed sizes only, and these are open: 'batch of x', 'length of x': fix them"
                " in the model"
            ),
        ),
        ("1,3,4", "'no nodes were compiled'"),
    ],
)
def test_open_dimensions_of_a_model_that_qnn_does_not_compile_are_named(
    shape: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[{shape}] x) => (float[{shape}] y) {{ y'
        " = Relu(x) }"
    )
    source = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), source)
    flags = SimpleNamespace(ERROR_IF_NO_NODES_COMPILED=1)
    fake = SimpleNamespace(__version__="1.31.0", ModelCompiler=_refuse, OrtCompileApiFlags=flags)
    library: Any = SimpleNamespace(target_options=SimpleNamespace)
    monkeypatch.setattr(onnxruntime_compiler, "load_onnxruntime", lambda: fake)
    monkeypatch.setattr(onnxruntime_compiler, "WheelLibrary", SimpleNamespace)
    monkeypatch.setattr(onnxruntime_compiler, "open_onnxruntime", lambda *_, **__: library)
    compiler = OnnxRuntimeCompiler(EpDevice(ep_name=QNN_EP, device=None), {})

    with pytest.raises(CompileError) as caught:
        compiler.compile(
            source, tmp_path / "out.onnx", data_folder="", is_embedded=False, config_entries={}
        )

    assert str(caught.value).endswith(ending)
