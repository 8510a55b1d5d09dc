"""What goes wrong around machine code is told by name, and the CPU provider stands in where it may."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.compiler.emission import object_compiler
from ortpkg.compiler.machine_code import executable_memory
from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.compiler.machine_code.executable_pages import CodePages
from ortpkg.foundations.ep_names import CPU_EP, LLVM_EP
from ortpkg.foundations.errors import (
    CompileError,
    EpContextError,
    ExecutionProviderError,
    InvalidSessionOptionError,
)
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.ep_registry import find_factory
from ortpkg.runtime.providers.llvm.llvm_compatibility import compatibility_info
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions

pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")
_X = np.arange(6, dtype=np.float32).reshape(2, 3)
_REFUSED = "the system allows no executable memory here: 'Permission denied'"


class _RefusingPages:
    """A system that gives no process memory for code."""

    def verify(self) -> None:
        raise PermissionError(13, "Permission denied")

    def map_bytes(self, code: memoryview) -> CodePages:
        raise PermissionError(13, f"Permission denied for {len(code)} bytes")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[n, 3] x) => (float[n, 3] y) { t = Mul (x, x)  y = Tanh (t) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def context(model: Path) -> Path:
    return _compiled(model)


def _compiled(model: Path) -> Path:
    made = model.with_name("net_ctx.onnx")
    options = SessionOptions()
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(made))
    InferenceSession(model, options, providers=["llvm", "cpu"]).close()
    return made


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable_memory, "page_source", _RefusingPages)


def _no_fallback() -> SessionOptions:
    options = SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return options


@pytest.mark.usefixtures("refusing")
def test_without_executable_memory_the_cpu_provider_stands_in(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        InferenceSession(model, providers=["llvm", "cpu"]) as session,
    ):
        assert {each.provider for each in session.get_partitions()} == {CPU_EP}
        np.testing.assert_allclose(session.run(None, {"x": _X})[0], np.tanh(_X * _X), rtol=1e-6)
        reasons = {each.ep_name: each.reason for each in session.get_placement().entries}
    assert reasons[LLVM_EP] == _REFUSED
    assert f"{LLVM_EP} compiles nothing: {_REFUSED}" in caplog.text


@pytest.mark.usefixtures("refusing")
def test_where_the_options_forbid_the_cpu_provider_the_refusal_is_the_error(model: Path) -> None:
    with pytest.raises(InvalidSessionOptionError, match=f"{LLVM_EP}: {_REFUSED}"):
        InferenceSession(model, _no_fallback(), providers=["llvm", "cpu"])


def test_a_context_that_cannot_be_mapped_is_a_clear_error(
    context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executable_memory, "page_source", _RefusingPages)
    with pytest.raises(ExecutionProviderError, match="the system allows no executable memory here"):
        InferenceSession(context, providers=["llvm", "cpu"])


def test_a_context_that_is_cut_while_a_session_is_open_still_has_its_code(
    model: Path, context: Path
) -> None:
    with (
        InferenceSession(context, providers=["llvm", "cpu"]) as session,
        InferenceSession(model, providers=["cpu"]) as plain,
    ):
        os.truncate(context.with_name("net_ctx_llvm.bin"), 0)
        np.testing.assert_allclose(
            session.run(None, {"x": _X})[0], plain.run(None, {"x": _X})[0], rtol=1e-5
        )


def test_weights_that_are_cut_off_under_an_open_session_are_an_error_and_no_crash(
    tmp_path: Path,
) -> None:
    path = tmp_path / "weighted.onnx"
    numbers = ", ".join(["0.5"] * 4096)
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    net (float[n, 64] x) => (float[n, 64] y) <float[64, 64] w = {{{numbers}}}> {{
        y = MatMul (x, w)
    }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    x = np.ones((2, 64), np.float32)
    with InferenceSession(_compiled(path), providers=["llvm", "cpu"]) as session:
        np.testing.assert_allclose(session.run(None, {"x": x})[0], np.full((2, 64), 32.0))
        binary = next(tmp_path.glob("*.bin"))
        os.truncate(binary, binary.stat().st_size - 1)
        with pytest.raises(EpContextError, match="became shorter while the session was open"):
            session.run(None, {"x": x})


@pytest.mark.usefixtures("refusing")
def test_code_for_another_machine_needs_no_memory_for_code_here(model: Path) -> None:
    options = SessionOptions()
    made = model.with_name("far_ctx.onnx")
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(made))
    provider = ("llvm", {"target": "windows-x86_64_v3"})
    InferenceSession(model, options, providers=[provider, "cpu"]).close()
    assert made.is_file()


def test_selection_takes_no_machine_code_where_none_can_be_mapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = host_target()
    assert target is not None
    factory = find_factory("llvm")
    rate = factory.validate_compiled_model_compatibility_info
    cpus, info = [probe().hardware[0]], compatibility_info(target)
    assert rate(cpus, info) is CompiledModelCompatibility.OPTIMAL
    monkeypatch.setattr(executable_memory, "page_source", _RefusingPages)
    assert rate(cpus, info) is CompiledModelCompatibility.UNSUPPORTED
    assert factory.compiled_model_refusal(cpus, info) == _REFUSED


def test_without_llvmlite_the_cpu_provider_stands_in_and_says_what_to_install(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "ortpkg.runtime.providers.llvm.llvm_execution_provider.has_compiler", lambda: False
    )
    with (
        caplog.at_level(logging.WARNING),
        InferenceSession(model, providers=["llvm", "cpu"]) as session,
    ):
        assert {each.provider for each in session.get_partitions()} == {CPU_EP}
    assert "compiling needs llvmlite, which is not installed: pip install llvmlite" in caplog.text
    with pytest.raises(
        InvalidSessionOptionError, match="compiling needs llvmlite, which is not installed"
    ):
        InferenceSession(model, _no_fallback(), providers=["llvm", "cpu"])


def test_an_llvmlite_that_cannot_be_loaded_or_is_too_old_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    object_compiler._llvm.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr("llvmlite.__version__", "0.43.0")
        with pytest.raises(
            CompileError,
            match=r"llvmlite '0.43.0' is too old to compile: pip install 'llvmlite>=0.50",
        ):
            object_compiler._llvm()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "llvmlite.binding", None)
        with pytest.raises(
            CompileError, match=r"llvmlite, which cannot be loaded \(.*\): pip install"
        ):
            object_compiler._llvm()


def test_a_newer_llvmlite_that_compiles_no_more_is_named_with_the_version_to_install(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llvmlite.__version__", "0.99.0")
    monkeypatch.delattr("llvmlite.binding.create_pass_builder")
    monkeypatch.setattr("ortpkg.compiler.assembly.kernel_compiler._KEPT", {})
    said = (
        r"llvmlite '0\.99\.0' does not compile what ortpkg generated: .*create_pass_builder.*;"
        r" ortpkg was tested with 0\.50: install llvmlite==0\.50\.\*"
    )
    with pytest.raises(CompileError, match=said):
        InferenceSession(model, providers=["llvm", "cpu"], enable_fallback=False)
