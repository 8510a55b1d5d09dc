"""Tests that named execution providers without a node are an error, unless others may run."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.api.model_package import ModelPackage
from ortpkg.authoring.create import create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.cli.app import run as run_command
from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.foundations.errors import ExecutionProviderError, NoNodeTakenError
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.execution_provider import BackendPlacement
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.named_providers import verify_named_run
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.scale.batches.package_runner import PackageRunner, PackageUse
from ortpkg.scale.serving.loading import load
from ortpkg.scale.serving.serving_options import LoadWishes, ServingLimits
from ortpkg.selection.matching.wishes import SelectionWishes
from tests.session.test_placement import AZURE_EP, CUDA_EP, SHARED_WEIGHT, Bridge, session_of

_DET = '<ir_version: 10, opset_import: ["" : 21]> g (float[3, 3] x) => (float y) { y = Det(x) }'
_PART = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[3, 3] x) => (float y) { s = Exp(x) d = Det(s) y = Neg(d) }
"""
_NOTHING = """
<ir_version: 10, opset_import: ["" : 21]> g () => (float[1] y) <float[1] y = {2}> { }
"""
_MESSAGE = (
    r"^OpenVINOExecutionProvider \(openvino\) was asked for and takes no node of the model: "
    r"OpenVINOExecutionProvider cannot compile the model as a whole: its library lacks "
    r"ai\.onnx:Det; name another execution provider, or allow others to run it "
    r"\(allow_fallback=True, --allow-fallback\)$"
)
_X = np.eye(3, dtype=np.float32)
_OPENVINO_CPU = EpDevice(ep_name=OPENVINO_EP, backend="openvino", device=None)


@pytest.fixture(autouse=True)
def _needs_openvino() -> None:
    pytest.importorskip("openvino")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize(
    "named",
    [
        {"providers": [OPENVINO_EP]},
        {"providers": ["openvino"], "enable_fallback": True},
        {"backend": "openvino"},
        {"ep_devices": [(_OPENVINO_CPU, {})]},
    ],
)
def test_what_was_named_and_takes_no_node_is_an_error(named: Any, isolate: bool) -> None:
    with pytest.raises(ExecutionProviderError, match=_MESSAGE):
        session_of(_DET, isolate=isolate, **named)


def test_it_is_one_where_the_options_or_the_environment_name_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = onnx.parser.parse_model(_DET).SerializeToString()
    options = SessionOptions()
    options.add_provider(OPENVINO_EP, {})
    with pytest.raises(ExecutionProviderError, match=_MESSAGE):
        InferenceSession(data, options)
    monkeypatch.setenv("ORTPKG_PROVIDERS", "openvino")
    with pytest.raises(ExecutionProviderError, match=_MESSAGE):
        InferenceSession(data)


def test_it_is_one_where_providers_are_set_anew() -> None:
    with session_of(_DET, providers=[CPU_EP]) as session:
        with pytest.raises(ExecutionProviderError, match=_MESSAGE):
            session.set_providers([OPENVINO_EP])
        assert session.run(None, {"x": _X})[0] == 1


@pytest.mark.parametrize("isolate", [False, True])
def test_the_caller_may_allow_others(isolate: bool, caplog: pytest.LogCaptureFixture) -> None:
    with session_of(_DET, providers=[OPENVINO_EP], isolate=isolate, allow_fallback=True) as session:
        assert session.run(None, {"x": _X})[0] == 1
        remade = pickle.loads(pickle.dumps(session))
        assert remade.run(None, {"x": _X})[0] == 1
    assert "takes no node of the model" in caplog.text
    assert "others run it, as the caller allows" in caplog.text


def test_the_option_of_onnxruntime_allows_them_too() -> None:
    data = onnx.parser.parse_model(_DET).SerializeToString()
    options = SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "0")
    with InferenceSession(data, options, providers=[OPENVINO_EP]) as session:
        assert session.run(None, {"x": _X})[0] == 1
    with pytest.raises(ExecutionProviderError, match=_MESSAGE):
        InferenceSession(data, options, providers=[OPENVINO_EP], allow_fallback=False)


def test_a_later_name_of_the_list_allows_what_it_names() -> None:
    with session_of(_DET, providers=[OPENVINO_EP, CPU_EP]) as session:
        assert session.run(None, {"x": _X})[0] == 1


def test_a_part_of_the_model_is_enough() -> None:
    with session_of(_PART, providers=[OPENVINO_EP]) as session:
        assert {partition.provider for partition in session.get_partitions()} == {
            OPENVINO_EP,
            CPU_EP,
        }


def test_a_model_without_nodes_needs_nobody() -> None:
    with session_of(_NOTHING, providers=[OPENVINO_EP]) as session:
        np.testing.assert_array_equal(session.run(None, {})[0], [2])


def test_what_onnxruntime_runs_on_its_own_cpu_provider_was_not_asked_for() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if AZURE_EP not in onnxruntime.get_available_providers():
        pytest.skip("this build of onnxruntime has no provider that leaves every node to the CPU")
    message = (
        r"^AzureExecutionProvider \(onnxruntime\) was asked for and takes no node .*gave its nodes"
    )
    for isolate in (False, True):
        with pytest.raises(ExecutionProviderError, match=message):
            session_of(SHARED_WEIGHT, providers=[AZURE_EP], isolate=isolate)
    session_of(SHARED_WEIGHT, providers=[AZURE_EP, CPU_EP]).close()


@pytest.mark.parametrize(
    ("places", "is_refused"),
    [
        ([], False),  # the backend does not tell: all on the device
        ([BackendPlacement(ep_name=CUDA_EP, node_count=1)], False),
        ([BackendPlacement(ep_name=CUDA_EP)], False),  # it does not count
        ([BackendPlacement(ep_name=CUDA_EP, device="CPU", is_fallback=True)], False),
        ([BackendPlacement(ep_name=CUDA_EP, node_count=0)], True),
        ([BackendPlacement(ep_name=CPU_EP, node_count=3, is_fallback=True)], True),
    ],
)
def test_a_partition_that_its_backend_runs_elsewhere_does_not_count(
    places: Sequence[BackendPlacement], is_refused: bool
) -> None:
    provider = Bridge(places)
    provider.is_named = True
    with session_of(SHARED_WEIGHT, providers=[OPENVINO_EP]) as session:
        (partition,) = session.get_partitions()
    partitions = [replace(partition, provider=CUDA_EP, fused_node="CUDA_0")]
    if is_refused:
        with pytest.raises(ExecutionProviderError, match=r"^CUDAExecutionProvider \(bridge\) was"):
            verify_named_run(partitions, [provider], allowed=False)
    verify_named_run(partitions, [provider], allowed=is_refused)


# --- packages -------------------------------------------------------------------------------------


def package_of(folder: Path, ep: str | None) -> ModelPackage:
    """Make a package of one model, whose variant names an execution provider, or none."""
    path = folder / "det.onnx"
    onnx.save(onnx.parser.parse_model(_DET), path)
    create(folder / "det.ortpackage", [NewVariant(model=path, name="it", ep=ep)])
    return ModelPackage(folder / "det.ortpackage")


def test_a_variant_that_names_its_provider_is_run_by_it_or_an_error(tmp_path: Path) -> None:
    package = package_of(tmp_path, OPENVINO_EP)
    with pytest.raises(ExecutionProviderError, match=_MESSAGE):
        package.create_session()
    for session in (
        package.create_session(allow_fallback=True),
        package.best_variant().create_session(allow_fallback=True),
    ):
        assert session.run(None, {"x": _X})[0] == 1


@pytest.mark.parametrize("wish", [{"ep": "openvino"}, {"backend": "openvino"}])
def test_what_a_selection_was_asked_for_is_named(tmp_path: Path, wish: Any) -> None:
    package = package_of(tmp_path, None)
    with pytest.raises(ExecutionProviderError, match=_MESSAGE):
        package.create_session(**wish)
    assert package.create_session(allow_fallback=True, **wish).run(None, {"x": _X})[0] == 1


def test_what_nobody_named_costs_no_session(tmp_path: Path) -> None:
    assert package_of(tmp_path, None).create_session().run(None, {"x": _X})[0] == 1


@pytest.mark.parametrize("arguments", [["--random"], ["--random", "--isolate"]])
def test_run_says_so(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(package_of(tmp_path, None).info.root)
    command = ["run", root, "--ep", "openvino", *arguments]
    assert run_command(command) != 0
    assert "takes no node of the model" in capsys.readouterr().err
    assert run_command([*command, "--allow-fallback"]) == 0


def test_a_served_package_says_so(tmp_path: Path) -> None:
    wishes = LoadWishes(selection=SelectionWishes(ep="openvino"))
    info, limits = package_of(tmp_path, None).info, ServingLimits(concurrency=1)
    with pytest.raises(ExecutionProviderError, match=_MESSAGE):
        load(info, wishes, limits)
    loaded = load(info, replace(wishes, allow_fallback=True), limits)
    assert loaded.model.session.run(None, {"x": _X})[0] == 1


def test_a_worker_of_a_batch_says_so(tmp_path: Path) -> None:
    """The variant goes into no quarantine, so that the caller may allow others next."""
    use = PackageUse(
        reference=str(package_of(tmp_path, None).info.root), wishes=SelectionWishes(ep="openvino")
    )
    with pytest.raises(NoNodeTakenError, match=_MESSAGE):
        PackageRunner(use)
    runner = PackageRunner(replace(use, allow_fallback=True))
    assert runner.session.run(None, {"x": _X})[0] == 1


@pytest.mark.parametrize("command", ["run", "serve", "batch"])
def test_the_commands_have_the_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([command, "--help-all"]) == 0
    assert "--allow-fallback" in capsys.readouterr().out
