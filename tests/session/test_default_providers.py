"""Sessions for which nobody names a provider: all the machine supports, CPU last."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.backend.session_backend import prepare
from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import CPU_EP, KNOWN_EPS, LLVM_EP
from ortpkg.foundations.errors import (
    CompileError,
    ExecutionProviderError,
    UnknownExecutionProviderError,
    UsageError,
)
from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.providers.ep_factory import EpFactory
from ortpkg.runtime.providers.ep_registry import AvailableFactories
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from ortpkg.runtime.providers.openvino_device import openvino_device
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.runtime.session import default_providers
from ortpkg.runtime.session.default_providers import default_ep_names, supported_ep_names
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import ExecutionMode, SessionOptions
from tests.session.conftest import model_of

CPU = HardwareDevice(type=DeviceType.CPU)
GPU = HardwareDevice(type=DeviceType.GPU)
MODEL = model_of("g (float[2] x) => (float[2] y) { a = Exp(x) y = Neg(a) }").SerializeToString()
X = {"x": np.array([0, 1], np.float32)}


class BrokenCompiler(ExecutionProvider):
    """Claims everything, and then cannot compile it."""

    closed = 0

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        meta = MetaDef(name="all", inputs=("x",), outputs=("y",))
        return [ComputeCapability(node_indices=tuple(viewer.order), meta_def=meta)]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        raise CompileError("the compiler is broken", ep_name=self.name)

    def close(self) -> None:
        BrokenCompiler.closed += 1


class Offering(EpFactory):
    """A factory that offers what it is told to."""

    version = "1"

    def __init__(
        self,
        ep_name: str,
        *devices: HardwareDevice | None,
        failure: str = "",
        backend: str = "openvino",
    ):
        self.ep_name = ep_name
        self.backend = backend
        self._devices = devices
        self._failure = failure

    def is_available(self) -> bool:
        return True

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        if self._failure:
            raise ExecutionProviderError(self._failure, ep_name=self.ep_name)
        return [
            EpDevice(ep_name=self.ep_name, device=device, backend=self.backend)
            for device in self._devices
        ]

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        return BrokenCompiler(self.ep_name, ep_devices=devices, options=options)


@pytest.fixture(autouse=True)
def nothing_stated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("ORTPKG_PROVIDERS")
    supported_ep_names.cache_clear()
    yield
    supported_ep_names.cache_clear()


def offer(monkeypatch: pytest.MonkeyPatch, *factories: EpFactory) -> None:
    monkeypatch.setattr(default_providers, "installed_distributions", lambda: ("onnxruntime",))
    monkeypatch.setattr(
        default_providers,
        "available_factories",
        lambda _hardware, **_asked: AvailableFactories(factories=tuple(factories)),
    )
    by_name = {factory.ep_name: factory for factory in factories}
    monkeypatch.setattr(
        "ortpkg.runtime.session.provider_list.find_factory",
        lambda name, backend=None: by_name[name],
    )


@pytest.mark.requirement("P11")
def test_what_the_machine_supports_comes_in_the_built_in_order_and_cpu_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer(
        monkeypatch,
        Offering(CPU_EP, CPU, backend="onnxruntime"),
        Offering("DmlExecutionProvider", GPU),
        Offering("OpenVINOExecutionProvider", CPU, GPU),
        Offering("CUDAExecutionProvider", None),
    )
    names = default_ep_names(SessionOptions())
    assert names == (
        "CUDAExecutionProvider",
        "OpenVINOExecutionProvider",
        "DmlExecutionProvider",
        CPU_EP,
    )
    assert list(names) == sorted(names, key=KNOWN_EPS.index)


@pytest.mark.requirement("P11")
def test_what_has_no_device_here_or_fails_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offer(
        monkeypatch,
        Offering("AzureExecutionProvider", None),
        Offering("CUDAExecutionProvider"),
        Offering("OpenVINOExecutionProvider", failure="it crashed"),
    )
    assert default_ep_names(SessionOptions()) == (CPU_EP,)
    assert "OpenVINOExecutionProvider is left out: it crashed" in caplog.text


@pytest.mark.requirement("P11")
def test_nothing_is_asked_where_no_library_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_arguments: object) -> None:
        raise AssertionError("hardware is looked at")

    monkeypatch.setattr(default_providers, "installed_distributions", tuple)
    monkeypatch.setattr(OpenVinoEpFactory, "is_available", lambda _self: False)
    monkeypatch.setattr(default_providers, "has_compiler", lambda: False)
    monkeypatch.setattr(default_providers, "probe", ask)
    with InferenceSession(MODEL) as session:
        assert session.get_providers() == [CPU_EP]


@pytest.mark.requirement("P11")
def test_a_session_without_names_runs_on_what_is_installed() -> None:
    pytest.importorskip("openvino")
    with InferenceSession(MODEL) as session:
        names = ["OpenVINOExecutionProvider", *([LLVM_EP] if host_target() else []), CPU_EP]
        assert session.get_providers() == names
        assert [each.provider for each in session.get_partitions()] == ["OpenVINOExecutionProvider"]
        np.testing.assert_allclose(session.run(None, X)[0], -np.exp(X["x"]), rtol=1e-5)


@pytest.mark.requirement("P11")
@pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")
def test_machine_code_comes_before_the_cpu_provider_where_it_can_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OpenVinoEpFactory, "is_available", lambda _self: False)
    with InferenceSession(MODEL) as session:
        assert session.get_providers() == [LLVM_EP, CPU_EP]
        assert [each.provider for each in session.get_partitions()] == [LLVM_EP]
        np.testing.assert_allclose(session.run(None, X)[0], -np.exp(X["x"]), rtol=1e-5)
    default_providers.supported_ep_names.cache_clear()
    monkeypatch.setattr("ortpkg.runtime.providers.llvm.llvm_factory.has_compiler", lambda: False)
    assert LLVM_EP not in default_ep_names(SessionOptions())


@pytest.mark.requirement("P11")
def test_a_list_of_names_is_taken_as_it_is() -> None:
    with InferenceSession(MODEL, providers=["cpu"]) as session:
        assert session.get_providers() == [CPU_EP]


@pytest.mark.parametrize(
    "options",
    [
        SessionOptions(memory_limit_nbytes=1 << 30),
        SessionOptions(timeout_s=60),
        SessionOptions(use_deterministic_compute=True),
        SessionOptions(optimized_model_filepath="optimized.onnx"),
        SessionOptions(execution_mode=ExecutionMode.ORT_PARALLEL),
    ],
    ids=["memory", "time", "deterministic", "optimized model", "parallel"],
)
def test_options_that_only_the_engine_keeps_leave_the_cpu_provider_alone(
    options: SessionOptions,
) -> None:
    assert default_ep_names(options) == (CPU_EP,)


@pytest.mark.requirement("P11")
def test_the_variable_stands_in_the_place_of_the_built_in_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORTPKG_PROVIDERS", "llvm, cpu")
    with InferenceSession(MODEL) as session:
        assert session.get_providers() == ["LLVMExecutionProvider", CPU_EP]
    with InferenceSession(MODEL, providers=["cpu"]) as session:
        assert session.get_providers() == [CPU_EP]


@pytest.mark.parametrize(
    ("text", "error"),
    [(" , ", UsageError), ("cpu,Frobnicate", UnknownExecutionProviderError)],
    ids=["none", "unknown"],
)
def test_a_variable_that_names_nothing_that_is_here_is_an_error(
    monkeypatch: pytest.MonkeyPatch, text: str, error: type[Exception]
) -> None:
    monkeypatch.setenv("ORTPKG_PROVIDERS", text)
    with pytest.raises(error):
        InferenceSession(MODEL)


def test_a_provider_that_nobody_asked_for_and_cannot_compile_costs_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offer(monkeypatch, Offering("DmlExecutionProvider", GPU))
    BrokenCompiler.closed = 0
    with caplog.at_level(logging.WARNING), InferenceSession(MODEL) as session:
        assert session.get_providers() == [CPU_EP]
        np.testing.assert_allclose(session.run(None, X)[0], -np.exp(X["x"]), rtol=1e-5)
    assert "the session is on CPUExecutionProvider alone: the compiler is broken" in caplog.text
    assert BrokenCompiler.closed == 1


@pytest.mark.parametrize("by", ["argument", "variable", "options"])
def test_one_that_somebody_asked_for_is_an_error(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = Offering("DmlExecutionProvider", GPU)
    offer(monkeypatch, factory)
    options = SessionOptions()
    if by == "options":
        (device,) = factory.get_supported_devices([])
        options.add_provider_for_devices([device])
    elif by == "variable":
        monkeypatch.setenv("ORTPKG_PROVIDERS", "dml")
    with pytest.raises(CompileError, match="the compiler is broken"):
        InferenceSession(MODEL, options, providers=["dml"] if by == "argument" else None)


def test_a_named_cpu_session_loads_no_other_library(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(MODEL)
    code = (
        "import sys, ortpkg; ortpkg.InferenceSession('m.onnx', providers=['CPUExecutionProvider']);"
        "print([name for name in ('openvino', 'onnxruntime') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def _device(name: str, kind: DeviceType = DeviceType.GPU) -> EpDevice:
    hardware = HardwareDevice(type=kind, name=name)
    return EpDevice(
        ep_name="DmlExecutionProvider", device=hardware, backend="openvino", ep_options={"id": name}
    )


def test_the_cpu_provider_keeps_the_devices_that_it_was_chosen_for() -> None:
    device = EpDevice(ep_name=CPU_EP, device=CPU, backend="embedded")
    with InferenceSession(MODEL, ep_devices=[(device, {"a": "1"})]) as session:
        (provider,) = session._providers
    assert provider.get_ep_devices() == (device,)


class TestSeveralDevices:
    """One provider for several EP devices of one EP (K21)."""

    made: list[tuple[list[str], dict[str, str]]]

    @pytest.fixture(autouse=True)
    def factory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = self.made = []

        class Factory(Offering):
            def create(
                self, devices: Sequence[EpDevice], options: Mapping[str, str]
            ) -> ExecutionProvider:
                made.append(([each.device.name for each in devices if each.device], dict(options)))
                return ExecutionProvider(self.ep_name, ep_devices=devices, options=options)

        offer(monkeypatch, Factory("DmlExecutionProvider", GPU))

    @pytest.mark.requirement("K21")
    def test_neighbours_with_equal_options_get_one_provider(self) -> None:
        first, second = _device("first"), _device("second")
        with InferenceSession(
            MODEL,
            ep_devices=[(first, {"a": "1"}), (second, {"a": "1"})],
            allow_fallback=True,
        ) as session:
            (provider, _cpu) = session._providers
        assert self.made == [(["first", "second"], {"a": "1"})]
        assert provider.get_ep_devices() == (first, second)

    @pytest.mark.requirement("K21")
    def test_other_options_make_a_provider_of_their_own(self) -> None:
        devices: list[tuple[EpDevice, dict[str, Any]]] = [
            (_device("first"), {}),
            (_device("second"), {"a": "1"}),
        ]
        InferenceSession(MODEL, ep_devices=devices, allow_fallback=True).close()
        assert self.made == [(["first"], {}), (["second"], {"a": "1"})]

    @pytest.mark.requirement("K21")
    def test_a_plugin_that_is_named_is_made_with_its_devices(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plugin = Offering("AcmeExecutionProvider", CPU, GPU, backend="acme")
        offer(monkeypatch, plugin)
        with InferenceSession(MODEL, providers=["cpu"]):
            pass
        monkeypatch.setattr(BrokenCompiler, "get_capability", lambda *_arguments: [])
        with InferenceSession(
            MODEL, providers=["AcmeExecutionProvider"], allow_fallback=True
        ) as session:
            assert [each.device for each in session._providers[0].get_ep_devices()] == [CPU, GPU]


@pytest.mark.requirement("K21")
def test_several_devices_of_openvino_are_one_virtual_device() -> None:
    devices = [
        EpDevice(ep_name="x", device=None, ep_options={"device_type": name})
        for name in ("GPU.1", "CPU", "CPU")
    ]
    assert openvino_device(devices, {}) == "HETERO:GPU.1,CPU"
    assert openvino_device(devices[:1], {"device_type": "GPU"}) == "GPU.1"
    assert openvino_device(devices, {"device_type": "NPU"}) == "NPU"


@pytest.mark.parametrize("device", [None, "CPU"])
def test_a_backend_of_the_onnx_package_computes_on_the_cpu_provider(device: str | None) -> None:
    assert prepare(MODEL, device)._session.get_providers() == [CPU_EP]


#: Its branches have other ranks, which OpenVINO gets wrong; the work lies in them.
IN_BRANCHES = model_of("""g (bool c, float[64,64] x) => (float y) <float one = {1}> {
    a = Exp(x)
    z = If(c) <
        then_branch = t () => (float[1] p) {
            p1 = MatMul(a, a) p2 = MatMul(p1, a) axes = Constant <value_ints = [0, 1]> ()
            p3 = ReduceSum <keepdims = 0> (p2, axes)
            shape = Constant <value_ints = [1]> () p = Reshape(p3, shape)
        },
        else_branch = e () => (float q) { q = Identity(one) }
    >
    y = ReduceSum <keepdims = 0> (z)
}""").SerializeToString()


def providers_of(session: InferenceSession) -> set[str]:
    return {partition.provider for partition in session._state.partitions}


@pytest.fixture
def nobody_names_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    monkeypatch.delenv("ORTPKG_PROVIDERS", raising=False)


@pytest.mark.usefixtures("nobody_names_a_provider")
def test_openvino_takes_a_whole_model_unnamed(caplog: pytest.LogCaptureFixture) -> None:
    with InferenceSession(MODEL) as session:
        assert providers_of(session) == {"OpenVINOExecutionProvider"}
    assert caplog.text == ""


@pytest.mark.usefixtures("nobody_names_a_provider")
def test_openvino_takes_no_pieces_unnamed(caplog: pytest.LogCaptureFixture) -> None:
    feeds = {"c": np.array(True), "x": np.eye(64, dtype=np.float32)}
    with InferenceSession(IN_BRANCHES) as session:
        (found,) = session.run(None, feeds)
        assert "OpenVINOExecutionProvider" not in providers_of(session)
    assert caplog.text == ""

    with InferenceSession(IN_BRANCHES, providers=["OpenVINOExecutionProvider"]) as session:
        (named,) = session.run(None, feeds)
        assert "OpenVINOExecutionProvider" in providers_of(session)
    np.testing.assert_allclose(found, named, rtol=1e-5)


def test_a_named_provider_says_once_and_briefly_what_it_leaves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The model has three graphs of which it leaves nodes."""
    pytest.importorskip("openvino")
    with InferenceSession(IN_BRANCHES, providers=["OpenVINOExecutionProvider"]):
        pass

    (message,) = (each.getMessage() for each in caplog.records if "OpenVINO" in each.getMessage())
    assert len(message) < 1100
