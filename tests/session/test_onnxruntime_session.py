"""Sessions as programs written for onnxruntime make and use them, in both libraries."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

import ortpkg
from ortpkg.foundations.errors import (
    ExecutionProviderError,
    InvalidSessionOptionError,
    SessionError,
    UnknownExecutionProviderError,
)
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.values.ort_ep_device import offered_ep_devices
from tests.session.conftest import model_of

LIBRARIES = [pytest.param(ortpkg, id="ortpkg"), pytest.param(onnxruntime, id="onnxruntime")]
RELU = bytes(
    model_of("g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }", opset=17).SerializeToString()
)
CPU, CUDA, AZURE = "CPUExecutionProvider", "CUDAExecutionProvider", "AzureExecutionProvider"
X = np.array([[1, -1]], np.float32)


def made_with(ort: Any, *args: Any, **keywords: Any) -> tuple[list[str], list[str]]:
    """The providers of a session that runs, and the warnings of its making."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = ort.InferenceSession(RELU, *args, **keywords)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], [[1, 0]])
    assert {each.category for each in caught} <= {UserWarning}
    assert {each.filename for each in caught if ort is ortpkg} <= {__file__}
    return session.get_providers(), [str(each.message) for each in caught]


# --- providers by name ----------------------------------------------------------------------------


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("named", [[CUDA, CPU], [CUDA], [(CUDA, {"device_id": 0}), CPU]])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_known_provider_that_is_not_here_is_left_out_with_a_warning(
    ort: Any, named: Any, fallback: bool
) -> None:
    providers, told = made_with(ort, providers=named, enable_fallback=fallback)
    assert providers == [CPU]
    assert len(told) == 1
    assert CUDA in told[0]
    assert "vailable" in told[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"providers": ["FooExecutionProvider", CPU]},
        {"providers": CPU},
        {"providers": {CPU}},
        {"providers": [[CPU, {}]]},
        {"providers": [(CPU, {}, 1)]},
        {"providers": [CPU], "provider_options": []},
        {"providers": [(CPU, {})], "provider_options": [{}]},
        {"providers": [CPU], "provider_options": ["a"]},
        {"providers": [CPU], "provider_options": {}},
    ],
    ids=str,
)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_wrong_list_of_providers_falls_back_to_the_cpu_unless_forbidden(
    ort: Any, arguments: Any
) -> None:
    providers, told = made_with(ort, **arguments)
    assert providers == [CPU]
    assert ort is onnxruntime or "falls back to CPUExecutionProvider" in told[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((RuntimeError, ValueError)):
            ort.InferenceSession(RELU, **arguments, enable_fallback=0)


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_provider_that_is_named_twice_is_taken_once(ort: Any) -> None:
    providers, told = made_with(ort, providers=[AZURE, AZURE, CPU])
    assert providers == [AZURE, CPU]
    assert len(told) == 1


def test_options_of_a_provider_become_texts() -> None:
    session = InferenceSession(RELU, providers=[(CPU, {"arena_extend_strategy": 1})])  # type: ignore[dict-item]
    assert session.get_provider_options() == {CPU: {"arena_extend_strategy": "1"}}


def test_what_a_backend_does_not_have_is_an_error() -> None:
    """It is ortpkg's own argument: who states it wants that and nothing else."""
    with pytest.raises(UnknownExecutionProviderError, match=CUDA):
        InferenceSession(RELU, providers=[CUDA], backend="openvino")


def test_a_provider_that_cannot_be_made_falls_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory

    def fail(*_: Any) -> Any:
        raise ExecutionProviderError("no such device", ep_name="OpenVINOExecutionProvider")

    monkeypatch.setattr(OpenVinoEpFactory, "create", fail)
    providers, told = made_with(ortpkg, providers=["openvino"])
    assert providers == [CPU]
    assert "no such device; the session falls back" in told[0]
    with pytest.raises(ExecutionProviderError, match="no such device"):
        InferenceSession(RELU, providers=["openvino"], enable_fallback=False)


def test_a_wrong_option_of_the_session_does_not_fall_back() -> None:
    options = ortpkg.SessionOptions(log_severity_level=9)
    with pytest.raises(InvalidSessionOptionError, match="log_severity_level"):
        InferenceSession(RELU, options, providers=[CPU])


# --- providers of the options ---------------------------------------------------------------------


@pytest.mark.parametrize("ort", LIBRARIES)
def test_providers_of_the_options_are_used(ort: Any) -> None:
    options = ort.SessionOptions()
    options.add_provider(AZURE, {})
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "0")
    assert made_with(ort, options) == ([AZURE, CPU], [])


@pytest.mark.parametrize("ort", LIBRARIES)
def test_named_providers_come_before_those_of_the_options(ort: Any) -> None:
    options = ort.SessionOptions()
    options.add_provider(AZURE, {})
    providers, told = made_with(ort, options, [CPU])
    assert providers == [CPU]
    assert len(told) == 1
    assert "options" in told[0]


@pytest.mark.parametrize("ort", LIBRARIES)
def test_devices_of_the_options_are_used(ort: Any) -> None:
    options = ort.SessionOptions()
    options.add_provider_for_devices(
        [each for each in ort.get_ep_devices() if each.ep_name == CPU], {}
    )
    assert made_with(ort, options) == ([CPU], [])


def test_a_device_of_a_backend_is_used_with_its_options() -> None:
    pytest.importorskip("openvino")
    devices = [
        each for each in offered_ep_devices() if each.ep_name == "OpenVINOExecutionProvider"
    ][:1]
    options = ortpkg.SessionOptions()
    options.add_provider_for_devices(devices, {"num_streams": "1"})
    session = InferenceSession(RELU, options)
    assert session.get_providers()[0] == "OpenVINOExecutionProvider"
    assert session.get_provider_options()["OpenVINOExecutionProvider"]["num_streams"] == "1"


# --- while it lives -------------------------------------------------------------------------------


@pytest.mark.parametrize("ort", LIBRARIES)
def test_providers_are_set_anew(ort: Any) -> None:
    session = ort.InferenceSession(RELU, providers=[CPU])
    session.set_providers([AZURE, CPU])
    assert session.get_providers() == [AZURE, CPU]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], [[1, 0]])
    session.set_providers([CPU], [{}])
    assert session.get_providers() == [CPU]
    with pytest.warns(UserWarning, match=CUDA):
        session.set_providers([CUDA])
    assert session.get_providers() == [CPU]


def test_a_session_whose_providers_cannot_be_set_stays_as_it_was() -> None:
    with InferenceSession(RELU, providers=[AZURE, CPU]) as session:
        with pytest.raises(UnknownExecutionProviderError):
            session.set_providers(["FooExecutionProvider"])
        assert session.get_providers() == [AZURE, CPU]
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], [[1, 0]])


def test_a_provider_that_fails_in_a_run_is_replaced_by_the_cpu_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = InferenceSession(RELU, providers=[AZURE, CPU])
    state = session._state

    def fail(*_: Any) -> Any:
        raise ExecutionProviderError("device lost", ep_name=AZURE)

    monkeypatch.setattr(type(state.executable), "run", _first(fail, type(state.executable).run))
    with pytest.warns(UserWarning, match="device lost; the session falls back"):
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], [[1, 0]])
    assert session.get_providers() == [CPU]
    monkeypatch.setattr(type(state.executable), "run", fail)
    with pytest.raises(ExecutionProviderError, match="device lost"):
        session.run(None, {"x": X})


@pytest.mark.parametrize("is_early", [True, False])
def test_fallback_in_runs_is_forbidden(is_early: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    session = InferenceSession(RELU, providers=[AZURE, CPU], enable_fallback=not is_early)
    if not is_early:
        session.disable_fallback()

    def fail(*_: Any) -> Any:
        raise ExecutionProviderError("device lost", ep_name=AZURE)

    monkeypatch.setattr(type(session._state.executable), "run", fail)
    with pytest.raises(ExecutionProviderError, match="device lost"):
        session.run(None, {"x": X})
    assert session.get_providers() == [AZURE, CPU]


def test_providers_that_are_set_later_are_had_or_an_error() -> None:
    session = InferenceSession(RELU, providers=[CPU])
    with pytest.raises(ExecutionProviderError, match="NoSuch"):
        session.set_providers(["NoSuchExecutionProvider"])
    assert session.get_providers() == [CPU]


def _first(once: Callable[..., Any], later: Callable[..., Any]) -> Callable[..., Any]:
    calls = []

    def run(*args: Any, **keywords: Any) -> Any:
        calls.append(args)
        return (once if len(calls) == 1 else later)(*args, **keywords)

    return run


# --- the other methods ----------------------------------------------------------------------------


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_session_says_where_its_values_lie(ort: Any) -> None:
    session = ort.InferenceSession(RELU)
    for infos in (session.get_input_memory_infos(), session.get_output_memory_infos()):
        assert [
            (info.name, info.device_id, int(info.mem_type), int(info.allocator_type))
            for info in infos
        ] == [("Cpu", 0, 0, 1)]
    assert [device.ep_name for device in session.get_input_epdevices()] == [CPU]


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_session_says_which_provider_runs_which_nodes_where_asked(ort: Any) -> None:
    with pytest.raises(Exception, match="record_ep_graph_assignment_info"):
        ort.InferenceSession(RELU).get_provider_graph_assignment_info()
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    (found,) = ort.InferenceSession(RELU, options).get_provider_graph_assignment_info()
    assert (found.ep_name, [(node.op_type, node.domain) for node in found.get_nodes()]) == (
        CPU,
        [("Relu", "")],
    )


@pytest.mark.parametrize("ort", LIBRARIES)
def test_methods_that_have_nothing_to_do_here_can_be_called(ort: Any) -> None:
    session = ort.InferenceSession(RELU)
    session.set_ep_dynamic_options({"ep.dynamic.workload_type": "Efficient"})
    with pytest.raises(RuntimeError):
        session.set_ep_dynamic_options({})
    assert session.get_tuning_results() == []
    session.set_tuning_results([])
    session.release_captured_graph()
    session.disable_fallback()
    session.enable_fallback()
    made = session.create_ortvalue_from_shape_and_type([2, 3], np.float32, "cpu")
    assert (made.shape(), made.data_type()) == ([2, 3], "tensor(float)")


def test_every_method_of_onnxruntimes_session_is_here() -> None:
    theirs = {name for name in dir(onnxruntime.InferenceSession) if not name.startswith("_")}
    assert theirs <= set(dir(InferenceSession))


def test_unknown_keywords_are_ignored_with_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    onnxruntime.InferenceSession(RELU, nonsense=3)
    with caplog.at_level(logging.WARNING, "ortpkg"):
        InferenceSession(RELU, nonsense=3, disabled_optimizers=["ConstantFolding"])
    assert "ignores the keywords 'nonsense', 'disabled_optimizers'" in caplog.text


def test_sessions_that_share_threads_have_those_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ortpkg.runtime.session.environment._global_threads", (3, 2))
    options = ortpkg.SessionOptions()
    options.use_per_session_threads = False
    found = InferenceSession(RELU, options).get_session_options()
    assert (found.intra_op_num_threads, found.inter_op_num_threads) == (3, 2)


# --- feeds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "feed", [[[1.0, -1.0]], [[1, -1]], [np.array([1, -1], np.float32)]], ids=str
)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_lists_are_fed(ort: Any, feed: Any) -> None:
    np.testing.assert_array_equal(ort.InferenceSession(RELU).run(None, {"x": feed})[0], [[1, 0]])


@pytest.mark.parametrize("feed", [[["a", "b"]], [[1.0], [1.0, 2.0]], [1.0, 2.0]], ids=str)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_list_that_is_no_such_tensor_is_refused(ort: Any, feed: Any) -> None:
    with pytest.raises(Exception) as caught:
        ort.InferenceSession(RELU).run(None, {"x": feed})
    assert {"RuntimeError", "InvalidArgument"} & {base.__name__ for base in caught.type.__mro__}


def test_fractions_are_not_cut_off_in_silence() -> None:
    model = model_of("g (int64[N] x) => (int64[N] y) { y = Identity(x) }").SerializeToString()
    with pytest.raises(
        SessionError, match=r"is a list of numpy float64, expected a list of tensor\(int64\)"
    ):
        InferenceSession(model).run(None, {"x": [1.5]})
    assert InferenceSession(model).run(None, {"x": [True, 2]})[0].tolist() == [1, 2]


@pytest.mark.parametrize("ort", LIBRARIES)
def test_ort_values_are_fed_beside_arrays(ort: Any) -> None:
    model = model_of(
        "g (float[2] a, float[2] b) => (float[2] y) { y = Add(a, b) }", opset=17
    ).SerializeToString()
    value = ort.OrtValue.ortvalue_from_numpy(X[0])
    assert ort.InferenceSession(model).run(None, {"a": value, "b": X[0]})[0].tolist() == [2, -2]


@pytest.mark.parametrize("feed", [["a", 3], np.array(["a", 3], object)], ids=repr)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_numbers_among_texts_become_texts(ort: Any, feed: Any) -> None:
    model = model_of(
        "g (string[N] x) => (string[N] y) { y = Identity(x) }", opset=17
    ).SerializeToString()
    assert ort.InferenceSession(model).run(None, {"x": feed})[0].tolist() == ["a", "3"]
