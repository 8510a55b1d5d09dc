"""Values that stay on a device: what a run copies, and what the plan says that it does.

The device counts its copies (``far_devices``).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg import ExecutionMode, InferenceSession, OrtValue, SessionOptions
from ortpkg.foundations.errors import InvalidFeedError, UsageError
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.providers import device_memories
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.device_memories import DeviceNumbers, open_memory
from ortpkg.runtime.providers.native_execution_provider import NativeExecutionProvider
from ortpkg.runtime.session.io_binding import IOBinding
from ortpkg.runtime.session.session_plan import describe_plan
from ortpkg.runtime.session.session_state import SessionState, create_session_state
from ortpkg.runtime.session.values.device_values import DeviceBorders, device_borders
from tests.session.far_devices import FarDevice, FarLibrary

EP, MEMORY = "AcmeExecutionProvider", "Acme:0"
_HEADER = '<ir_version: 10, opset_import: ["" : 21]>'
X = np.arange(6, dtype=np.float32).reshape(2, 3)

#: One partition.
_WHOLE = "g (float[2,3] x) => (float[2,3] y) { a = Neg(x) y = Add(a, x) }"
#: Two partitions with an operator of the CPU's between them, whose value the second does not need.
_TWO = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
    a = Neg(x) b = Exp(a) c = Tanh(b) d = Mul(b, b) y = Add(d, a) z = Identity(c) }"""
#: Two partitions that both read the input.
_SHARED = "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Neg(x) z = Exp(x) }"
#: The CPU reads an input and an output of the partition.
_READ = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
    y = Neg(x) t = Tanh(x) u = Tanh(y) z = Mul(t, u) }"""


@pytest.fixture(autouse=True)
def _no_memory_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_memories, "_open", {})


@pytest.fixture
def device() -> FarDevice:
    far_device = FarDevice(MEMORY)
    far_device.device_name = "acme"
    open_memory(DeviceNumbers(1, 0, 0), far_device)
    return far_device


def _state(
    text: str, device: FarDevice, options: SessionOptions | None = None, **on_cpu: Any
) -> SessionState:
    model = load_model(onnx.parser.parse_model(f"{_HEADER} {text}").SerializeToString())
    options = SessionOptions() if options is None else options
    options.add_session_config_entry("ortpkg.verify_plan", "1")
    providers = [
        NativeExecutionProvider(EP, FarLibrary(device, **on_cpu)),
        CPUExecutionProvider(),
    ]
    return create_session_state(model, options, providers)


def _copies(state: SessionState) -> list[tuple[str, str, str]]:
    graph = describe_plan(state, (EP,)).graph
    return [(copy.value, copy.source, copy.target) for copy in graph.copies]


def _counts(device: FarDevice) -> tuple[int, int]:
    return len(device.to_device), len(device.to_host)


def _expected(text: str) -> list[Any]:
    data = onnx.parser.parse_model(f"{_HEADER} {text}").SerializeToString()
    return InferenceSession(data, providers=["cpu"]).run(None, {"x": X})


@pytest.mark.parametrize("text", [_WHOLE, _TWO, _SHARED, _READ])
def test_a_run_makes_the_copies_that_its_plan_names_and_no_more(
    text: str, device: FarDevice
) -> None:
    state = _state(text, device)
    for outcome, right in zip(state.run([X], RunControl()), _expected(text), strict=True):
        np.testing.assert_allclose(outcome, right, rtol=1e-6)
    planned = _copies(state)
    to_device = sum(target == MEMORY for _, _, target in planned)
    assert _counts(device) == (to_device, len(planned) - to_device)
    assert not device.within


@pytest.mark.parametrize("text", [_TWO, _SHARED])
def test_parallel_execution_copies_as_often(text: str, device: FarDevice) -> None:
    options = SessionOptions()
    options.execution_mode = ExecutionMode.ORT_PARALLEL
    state = _state(text, device, options)
    for _ in range(5):
        for outcome, right in zip(state.run([X], RunControl()), _expected(text), strict=True):
            np.testing.assert_allclose(outcome, right, rtol=1e-6)
    state.close()
    assert sum(_counts(device)) == 5 * len(_copies(state))


def test_a_value_between_two_partitions_stays_on_the_device(device: FarDevice) -> None:
    copies = _copies(_state(_TWO, device))
    assert len([copy for copy in copies if copy[2] == MEMORY]) == 1, "x, and neither a nor b"
    assert sorted(source for _, source, target in copies if target == "Cpu") == [MEMORY] * 2


def test_an_input_of_two_partitions_is_copied_once(device: FarDevice) -> None:
    state = _state(_SHARED, device)
    assert [copy for copy in _copies(state) if copy[2] == MEMORY] == [("x", "Cpu", MEMORY)]


def test_what_the_library_has_in_the_cpus_memory_is_no_copy(device: FarDevice) -> None:
    state = _state(_WHOLE, device, reads_on_cpu=["x"], makes_on_cpu=["y"])
    assert _copies(state) == []
    assert device_borders(state.executable) == DeviceBorders({}, {})
    state.run([X], RunControl())
    assert _counts(device) == (0, 0)


@pytest.mark.parametrize(
    ("text", "inputs", "outputs"),
    [
        (_WHOLE, {"x": MEMORY}, {"y": MEMORY}),
        (_SHARED, {"x": MEMORY}, {"y": MEMORY, "z": MEMORY}),
        (_TWO, {"x": MEMORY}, {"y": MEMORY}),
        (_READ, {}, {"z": MEMORY}),
    ],
)
def test_a_session_knows_which_values_may_stay(
    text: str, inputs: dict[str, str], outputs: dict[str, str], device: FarDevice
) -> None:
    state = _state(text, device)
    assert device_borders(state.executable) == DeviceBorders(inputs, outputs)


# --- sessions, as programs use them ---------------------------------------------------------------


class _Session(InferenceSession):
    """A session of one model on the device."""

    def __init__(self, text: str, device: FarDevice) -> None:
        data = onnx.parser.parse_model(f"{_HEADER} {text}").SerializeToString()
        super().__init__(data, providers=["cpu"])
        state = _state(text, device)
        self._take(self._wishes, self._parts_with(state))

    def _parts_with(self, state: SessionState) -> Any:
        return SimpleNamespace(
            providers=self._providers,
            state=state,
            profiler=None,
            is_native=True,
            files=self._files,
            required=self._inputs,
            overridable=self._overridable,
            outputs=self._outputs,
            metadata=self._metadata,
            declared=self._declared,
            sparse_outputs=self._sparse_outputs,
        )


def _bound(session: InferenceSession, x: OrtValue, *outputs: str) -> IOBinding:
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    for name in outputs:
        binding.bind_output(name, "gpu")
    session.run_with_iobinding(binding)
    return binding


def test_values_on_the_device_are_bound_without_a_copy(device: FarDevice) -> None:
    session = _Session(_WHOLE, device)
    x = OrtValue.ortvalue_from_numpy(X, "gpu")
    assert (x.device_name(), x.shape(), x.data_type()) == ("acme", [2, 3], "tensor(float)")
    before = _counts(device)
    binding = _bound(session, x, "y")
    (y,) = binding.get_outputs()
    again = _bound(session, y, "y")
    assert y.device_name() == "acme"
    assert _counts(device) == before
    assert not device.within
    np.testing.assert_array_equal(again.copy_outputs_to_cpu()[0], 0 * X)
    np.testing.assert_array_equal(y.numpy(), 0 * X)
    assert _counts(device) == (before[0], before[1] + 2)


def test_a_session_says_in_onnxruntimes_words_where_its_values_lie(device: FarDevice) -> None:
    session = _Session(_READ, device)
    (x,) = session.get_input_memory_infos()
    y, z = session.get_output_memory_infos()
    assert [info.name for info in (x, y, z)] == ["Cpu", "Cpu", MEMORY]
    assert (z.device_type.name, z.device_id, z.device_vendor_id) == ("GPU", 0, 0)


def test_a_run_writes_into_a_tensor_that_lies_on_the_device(device: FarDevice) -> None:
    session = _Session(_WHOLE, device)
    target = OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, "gpu")
    before = _counts(device)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", OrtValue.ortvalue_from_numpy(X))
    binding.bind_ortvalue_output("y", target)
    session.run_with_iobinding(binding)
    assert _counts(device) == (before[0] + 1, before[1]), "x alone"
    np.testing.assert_array_equal(target.numpy(), 0 * X)
    assert binding.get_outputs()[0].value is target.value


def test_an_output_of_the_cpu_is_brought_to_the_device_that_it_is_bound_to(
    device: FarDevice,
) -> None:
    session = _Session(_READ, device)
    binding = _bound(session, OrtValue.ortvalue_from_numpy(X), "y", "z")
    for value, right in zip(binding.get_outputs(), _expected(_READ), strict=True):
        assert value.device_name() == "acme"
        np.testing.assert_allclose(value.numpy(), right, rtol=1e-6)


def test_a_value_on_the_device_is_copied_for_a_session_that_has_no_use_for_it_there(
    device: FarDevice,
) -> None:
    x = OrtValue.ortvalue_from_numpy(X, "gpu")
    for session in (_Session(_READ, device), _cpu_session(_WHOLE)):
        (y, *_) = session.run(None, {"x": x})
        assert isinstance(y, np.ndarray)


def _cpu_session(text: str) -> InferenceSession:
    data = onnx.parser.parse_model(f"{_HEADER} {text}").SerializeToString()
    return InferenceSession(data, providers=["cpu"])


def test_run_returns_arrays_whatever_it_is_fed(device: FarDevice) -> None:
    session = _Session(_SHARED, device)
    y, z = session.run(None, {"x": OrtValue.ortvalue_from_numpy(X, "gpu")})
    np.testing.assert_array_equal(y, -X)
    np.testing.assert_allclose(z, np.exp(X), rtol=1e-6)
    assert _counts(device) == (1, 2), "x by its maker; y and z"


def test_an_output_that_is_named_twice_is_two_values(device: FarDevice) -> None:
    session = _Session(_WHOLE, device)
    first, second = session.run_with_values_left(["y", "y"], {"x": X}, {"y": MEMORY})
    np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_a_tensor_of_another_shape_or_type_is_refused(device: FarDevice) -> None:
    session = _Session(_WHOLE, device)
    with pytest.raises(InvalidFeedError, match="rank 1"):
        session.run(None, {"x": OrtValue.ortvalue_from_numpy(X[0], "gpu")})
    with pytest.raises(InvalidFeedError, match="numpy int64"):
        session.run(None, {"x": OrtValue.ortvalue_from_numpy(X.astype(np.int64), "gpu")})
    binding = session.io_binding()
    for shape, kind in (([3, 2], np.float32), ([2, 3, 1], np.float32), ([2, 3], np.int64)):
        target = OrtValue.ortvalue_from_shape_and_type(shape, kind, "gpu")
        with pytest.raises(
            UsageError, match=r"output 'y' is tensor\(float\)\[2, 3\], but is bound"
        ):
            binding.bind_ortvalue_output("y", target)


def test_a_device_without_a_session_is_refused() -> None:
    with pytest.raises(UsageError, match="values lie on device 'cpu'"):
        OrtValue.ortvalue_from_numpy(X, "cuda")


def test_a_value_on_a_device_has_no_address(device: FarDevice) -> None:
    value = OrtValue.ortvalue_from_numpy(X, "gpu")
    assert isinstance(value.value, DeviceTensor)
    assert value.is_tensor()
    assert value.tensor_size_in_bytes() == X.nbytes
    with pytest.raises(UsageError, match="no address"):
        value.data_ptr()
    with pytest.raises(UsageError, match="DLPack"):
        value.__dlpack__()
    value.update_inplace(2 * X)
    np.testing.assert_array_equal(value.numpy(), 2 * X)
