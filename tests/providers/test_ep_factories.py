"""EP factories: which devices they report, and what they do where a library fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ortpkg.foundations.errors import ExecutionProviderError
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.runtime.providers import onnxruntime_factory
from ortpkg.runtime.providers.cpu_factory import CpuEpFactory
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.installed_distribution import (
    InstalledDistribution,
    find_distributions,
)
from ortpkg.runtime.providers.onnxruntime_factory import OnnxRuntimeEpFactory
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory

Hardware = tuple[HardwareDevice, ...]


def _answering(value: Any) -> Callable[[Mapping[str, object]], ProbeAnswer]:
    return lambda _fingerprint: ProbeAnswer(value=value)


# --- CPU ------------------------------------------------------------------------------------------


@pytest.mark.requirement("K21")
def test_the_cpu_factory_reports_the_cpu_and_makes_a_provider_that_knows_it(
    laptop: Hardware,
) -> None:
    factory = CpuEpFactory()

    (ep_device,) = factory.get_supported_devices(laptop)
    provider = factory.create([ep_device], {})

    assert (ep_device.ep_name, ep_device.backend) == ("CPUExecutionProvider", "embedded")
    assert ep_device.device is laptop[0]
    assert provider.get_ep_devices() == (ep_device,)
    assert (
        factory.validate_compiled_model_compatibility_info(laptop, "x")
        is CompiledModelCompatibility.NOT_APPLICABLE
    )


@pytest.mark.requirement("K10")
def test_the_cpu_factory_knows_that_it_runs_no_context_of_onnxruntimes_provider_of_that_name(
    laptop: Hardware,
) -> None:
    info = "onnxruntime;sdk=1.31.1;device=CPU;architecture=icelake;options=44136fa355b3"
    rating = CpuEpFactory().validate_compiled_model_compatibility_info(laptop, info)
    assert rating is CompiledModelCompatibility.UNSUPPORTED


# --- OpenVINO -------------------------------------------------------------------------------------

_LAPTOP_DEVICES = [
    {"id": "CPU", "FULL_DEVICE_NAME": "Core Ultra", "DEVICE_TYPE": "integrated"},
    {
        "id": "GPU",
        "FULL_DEVICE_NAME": "Arc (iGPU)",
        "DEVICE_TYPE": "integrated",
        "DEVICE_PCI_INFO": "0000:00:02.0",
    },
    {
        "id": "NPU",
        "FULL_DEVICE_NAME": "AI Boost",
        "DEVICE_ARCHITECTURE": "3720",
        "NPU_DRIVER_VERSION": "1688",
    },
]


def test_openvinos_devices_are_matched_with_the_hardware(laptop: Hardware) -> None:
    cpu, gpu, npu = OpenVinoEpFactory(_answering(_LAPTOP_DEVICES)).get_supported_devices(laptop)

    assert cpu.device is laptop[0]
    assert gpu.device is not None
    assert (gpu.device.name, gpu.device.is_discrete, gpu.device.source) == (
        "Arc",
        False,
        "sysfs, openvino",
    )
    assert gpu.ep_options == {"device_type": "GPU"}
    assert npu.device is laptop[2]
    assert npu.ep_metadata == {
        "full_device_name": "AI Boost",
        "device_architecture": "3720",
        "npu_driver_version": "1688",
    }


def test_a_device_that_the_system_does_not_know_comes_from_openvino(laptop: Hardware) -> None:
    entry = {
        "id": "GPU.1",
        "FULL_DEVICE_NAME": "Arc A770",
        "DEVICE_TYPE": "discrete",
        "GPU_DEVICE_TOTAL_MEM_SIZE": 16 << 30,
    }

    (ep_device,) = OpenVinoEpFactory(_answering([entry])).get_supported_devices(laptop[:1])

    assert ep_device.device == HardwareDevice(
        type=DeviceType.GPU,
        name="Arc A770",
        vendor="Intel",
        vendor_id=0x8086,
        is_discrete=True,
        memory_nbytes=16 << 30,
        source="openvino",
    )


def test_two_gpus_of_openvino_are_two_of_the_hardware() -> None:
    cards = tuple(
        HardwareDevice(type=DeviceType.GPU, name=name, vendor_id=0x8086, is_discrete=True)
        for name in ("one", "two")
    )
    answer = _answering([{"id": "GPU.0"}, {"id": "GPU.1"}])

    found = OpenVinoEpFactory(answer).get_supported_devices(cards)

    assert [ep_device.device.name for ep_device in found if ep_device.device] == ["one", "two"]


@pytest.mark.parametrize("answer", [None, {}, "CPU", [1, None, {}], [{"id": "TPU"}], [{"id": 5}]])
def test_an_answer_of_another_form_is_no_devices(laptop: Hardware, answer: Any) -> None:
    assert OpenVinoEpFactory(_answering(answer)).get_supported_devices(laptop) == []


def test_an_openvino_that_crashes_is_an_error_that_says_so(laptop: Hardware) -> None:
    factory = OpenVinoEpFactory(lambda _fingerprint: ProbeAnswer(failure="it was ended by SIGSEGV"))

    with pytest.raises(
        ExecutionProviderError,
        match="the library behind OpenVINOExecutionProvider failed: it was ended by SIGSEGV",
    ):
        factory.get_supported_devices(laptop)


def test_the_fingerprint_has_the_version_and_the_hardware(laptop: Hardware) -> None:
    seen: list[Mapping[str, object]] = []

    def ask(fingerprint: Mapping[str, object]) -> ProbeAnswer:
        seen.append(fingerprint)
        return ProbeAnswer(value=[])

    OpenVinoEpFactory(ask).get_supported_devices(laptop)
    OpenVinoEpFactory(ask).get_supported_devices(laptop[:1])

    assert set(seen[0]) == {"openvino", "hardware"}
    assert seen[0] != seen[1]


def test_the_installed_openvino_answers_from_a_child(laptop: Hardware, cache: Path) -> None:
    pytest.importorskip("openvino")

    found = OpenVinoEpFactory().get_supported_devices(laptop)

    assert "CPU" in [ep_device.ep_options["device_type"] for ep_device in found]
    assert [path.name.split("-")[0] for path in cache.rglob("*.json")] == ["openvino_probe"]


# --- the onnxruntime bridge -----------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (InstalledDistribution(name="onnxruntime-gpu", version="1.31.1"),)
    monkeypatch.setattr(onnxruntime_factory, "installed_distributions", lambda: found)


def _entry(ep_name: str, device_type: str, **facts: Any) -> dict[str, Any]:
    return {"ep_name": ep_name, "type": device_type, "vendor_id": 0, "device_id": 0, **facts}


def _devices(ep_name: str, offers: Any, hardware: Sequence[HardwareDevice]) -> list[Any]:
    return OnnxRuntimeEpFactory(ep_name, _answering(offers)).get_supported_devices(hardware)


@pytest.mark.usefixtures("installed")
def test_the_bridge_reports_what_onnxruntime_reports(laptop: Hardware) -> None:
    offers = {
        "providers": ["QNNExecutionProvider", "CPUExecutionProvider"],
        "ep_devices": [
            _entry(
                "QNNExecutionProvider",
                "npu",
                vendor_id=0x8086,
                ep_metadata={"version": "1"},
                ep_vendor="Q",
            ),
            _entry("CPUExecutionProvider", "cpu"),
        ],
    }

    (ep_device,) = _devices("QNNExecutionProvider", offers, laptop)

    assert ep_device.device is laptop[2]
    assert (ep_device.backend, ep_device.ep_version, ep_device.ep_vendor) == (
        "onnxruntime",
        "1.31.1",
        "Q",
    )
    assert ep_device.ep_metadata == {"version": "1"}


@pytest.mark.requirement("K08")
@pytest.mark.usefixtures("installed")
def test_a_provider_without_ep_devices_reports_no_devices(laptop: Hardware) -> None:
    offers = {"providers": ["CUDAExecutionProvider", "AzureExecutionProvider"], "ep_devices": []}

    assert [found.device for found in _devices("CUDAExecutionProvider", offers, laptop)] == [None]
    assert [found.device for found in _devices("AzureExecutionProvider", offers, laptop)] == [None]


@pytest.mark.usefixtures("installed")
def test_a_cuda_build_offers_nothing_on_a_machine_without_gpu(laptop: Hardware) -> None:
    offers = {"providers": ["CUDAExecutionProvider"], "ep_devices": []}

    assert _devices("CUDAExecutionProvider", offers, laptop[:1]) == []


_NVIDIA = HardwareDevice(
    type=DeviceType.GPU,
    name="NVIDIA H100 80GB HBM3",
    vendor="NVIDIA",
    vendor_id=0x10DE,
    metadata={"pci_address": "0000:c1:00.0"},
)
_CUDA = "CUDAExecutionProvider"
_MISSING = "CUDA 13's cuBLAS is missing: pip install nvidia-cublas"


@pytest.mark.usefixtures("installed")
def test_a_cuda_build_offers_the_devices_that_the_driver_lists(laptop: Hardware) -> None:
    entry = _entry(
        _CUDA,
        "gpu",
        vendor_id=0x10DE,
        ep_options={"device_id": "1"},
        metadata={"pci_bus_id": "0000:c1:00.0"},
    )
    unknown = {
        **entry,
        "name": "NVIDIA L4",
        "memory_nbytes": 24 << 30,
        "metadata": {"pci_bus_id": "0000:05:00.0"},
    }
    offers = {"providers": [_CUDA], "ep_devices": [entry, unknown], "unusable": {}, "notes": {}}

    one, other = _devices(_CUDA, offers, (*laptop, _NVIDIA))

    assert (one.device, one.ep_options) == (_NVIDIA, {"device_id": "1"})
    assert (other.device.name, other.device.memory_nbytes) == ("NVIDIA L4", 24 << 30)


@pytest.mark.usefixtures("installed")
def test_a_cuda_build_that_cannot_start_is_not_offered_and_says_why(laptop: Hardware) -> None:
    offers = {"providers": [_CUDA], "ep_devices": [], "unusable": {_CUDA: _MISSING}}
    factory = OnnxRuntimeEpFactory(_CUDA, _answering(offers))

    assert factory.get_supported_devices((*laptop, _NVIDIA)) == []
    assert factory.nothing_offered_note == (
        f"{_CUDA} (onnxruntime-gpu 1.31.1) cannot run here: {_MISSING}"
    )
    assert factory.get_supported_devices(laptop) == []  # another vendor's GPU


@pytest.mark.usefixtures("installed")
def test_a_cuda_build_where_no_such_gpu_is_says_no_more_than_that(laptop: Hardware) -> None:
    offers = {"providers": [_CUDA], "ep_devices": [], "unusable": {_CUDA: "no driver"}}
    factory = OnnxRuntimeEpFactory(_CUDA, _answering(offers))

    assert factory.get_supported_devices(laptop) == []
    assert factory.nothing_offered_note == (
        f"{_CUDA} (onnxruntime-gpu 1.31.1) offers no device on this machine"
    )


@pytest.mark.usefixtures("installed")
def test_what_is_missing_beside_an_offered_device_is_noted(laptop: Hardware) -> None:
    note = "CUDA 13's cuDNN 9 is missing: pip install nvidia-cudnn-cu13"
    offers = {
        "providers": [_CUDA],
        "ep_devices": [_entry(_CUDA, "gpu", vendor_id=0x10DE)],
        "notes": {_CUDA: note},
    }
    factory = OnnxRuntimeEpFactory(_CUDA, _answering(offers))

    assert factory.get_supported_devices((*laptop, _NVIDIA))
    assert factory.offer_note == f"{_CUDA} (onnxruntime-gpu 1.31.1): {note}"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("is_built_for_cuda", [False, True])
def test_nvidias_libraries_count_for_a_build_that_uses_them(
    is_built_for_cuda: bool, laptop: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime_factory, "is_built_for_cuda", lambda: is_built_for_cuda)
    seen: list[Mapping[str, object]] = []

    def ask(fingerprint: Mapping[str, object]) -> ProbeAnswer:
        seen.append(fingerprint)
        return ProbeAnswer(value={})

    OnnxRuntimeEpFactory(_CUDA, ask).get_supported_devices(laptop)

    assert ("nvidia" in seen[0]) is is_built_for_cuda


@pytest.mark.usefixtures("installed")
def test_a_provider_that_the_build_lacks_offers_nothing(laptop: Hardware) -> None:
    assert (
        _devices(
            "CUDAExecutionProvider",
            {"providers": ["CPUExecutionProvider"], "ep_devices": []},
            laptop,
        )
        == []
    )


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "answer", [None, [], {"providers": "x"}, {"providers": ["X"], "ep_devices": [1, {}]}]
)
def test_an_odd_answer_of_onnxruntime_offers_no_devices(laptop: Hardware, answer: Any) -> None:
    assert [found.device for found in _devices("X", answer, laptop)] in ([], [None])


def test_the_installed_onnxruntime_offers_its_cpu_from_a_child(
    laptop: Hardware, cache: Path
) -> None:
    pytest.importorskip("onnxruntime")

    assert "CPUExecutionProvider" in onnxruntime_factory.list_ep_names(laptop)
    assert OnnxRuntimeEpFactory("CPUExecutionProvider").get_supported_devices(laptop)
    assert [path.name.split("-")[0] for path in cache.rglob("*.json")] == ["onnxruntime_probe"]


class _Rating:
    """What onnxruntime would say of a compatibility string."""

    def __init__(self, answer: ProbeAnswer) -> None:
        self.answer = answer
        self.asked: list[Mapping[str, Any]] = []

    def __call__(
        self, arguments: Mapping[str, Any], fingerprint: Mapping[str, object]
    ) -> ProbeAnswer:
        assert set(fingerprint) == {"distributions", "hardware"}
        self.asked.append(arguments)
        return self.answer


def _rated(laptop: Hardware, answer: ProbeAnswer) -> tuple[OnnxRuntimeEpFactory, _Rating]:
    offers = {
        "providers": ["OpenVINOExecutionProvider"],
        "ep_devices": [
            _entry("OpenVINOExecutionProvider", kind, vendor_id=0x8086)
            for kind in ("cpu", "gpu", "npu")
        ],
    }
    rating = _Rating(answer)
    factory = OnnxRuntimeEpFactory("OpenVINOExecutionProvider", _answering(offers), rating)
    factory.get_supported_devices(laptop)
    return factory, rating


@pytest.mark.requirement("K10")
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("answer", "rating"),
    [
        ("EP_SUPPORTED_OPTIMAL", CompiledModelCompatibility.OPTIMAL),
        ("EP_SUPPORTED_PREFER_RECOMPILATION", CompiledModelCompatibility.PREFER_RECOMPILATION),
        ("EP_UNSUPPORTED", CompiledModelCompatibility.UNSUPPORTED),
        ("EP_NOT_APPLICABLE", CompiledModelCompatibility.NOT_APPLICABLE),
        ("EP_OF_A_LATER_RELEASE", CompiledModelCompatibility.UNKNOWN),
        (None, CompiledModelCompatibility.UNKNOWN),
        ([1], CompiledModelCompatibility.UNKNOWN),
    ],
)
def test_the_bridge_asks_onnxruntime_about_the_device_that_is_meant(
    laptop: Hardware, answer: Any, rating: CompiledModelCompatibility
) -> None:
    factory, asked = _rated(laptop, ProbeAnswer(value=answer))

    assert factory.validate_compiled_model_compatibility_info([laptop[2]], "soc") is rating
    assert asked.asked == [
        {"ep_name": "OpenVINOExecutionProvider", "positions": [2], "info": "soc"}
    ]


@pytest.mark.usefixtures("installed")
def test_a_device_that_this_onnxruntime_does_not_report_is_not_asked_about(
    laptop: Hardware,
) -> None:
    factory, asked = _rated(laptop, ProbeAnswer(value="EP_UNSUPPORTED"))
    foreign = HardwareDevice(type=DeviceType.NPU, name="of a profile")

    assert (
        factory.validate_compiled_model_compatibility_info([foreign], "x")
        is CompiledModelCompatibility.UNKNOWN
    )
    assert (
        factory.validate_compiled_model_compatibility_info([], "x")
        is CompiledModelCompatibility.NOT_APPLICABLE
    )
    assert asked.asked == []


@pytest.mark.usefixtures("installed")
def test_an_onnxruntime_that_crashes_over_a_string_is_an_error(laptop: Hardware) -> None:
    factory, _ = _rated(laptop, ProbeAnswer(failure="it was ended by SIGSEGV"))

    with pytest.raises(
        ExecutionProviderError,
        match="the library behind OpenVINOExecutionProvider failed: it was ended",
    ):
        factory.validate_compiled_model_compatibility_info([laptop[0]], "x")


def test_the_installed_onnxruntime_rates_a_string_on_its_cpu() -> None:
    pytest.importorskip("onnxruntime")
    from ortpkg.runtime.providers.onnxruntime_probe import rate_compatibility

    assert rate_compatibility("CPUExecutionProvider", [0], "x") in {"EP_NOT_APPLICABLE", None}
    assert rate_compatibility("CPUExecutionProvider", [99], "x") is None
    assert rate_compatibility("NoSuchExecutionProvider", [0], "x") is None


def test_an_onnxruntime_that_cannot_rate_says_nothing_and_one_that_can_is_asked_with_the_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("onnxruntime")
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    from ortpkg.runtime.providers.onnxruntime_probe import rate_compatibility

    def rate(ep_devices: list[Any], info: str) -> Any:
        names = "-".join(each.ep_name for each in ep_devices)
        return SimpleNamespace(name=f"{names} {info}")

    monkeypatch.setattr(state, "get_model_compatibility_for_ep_devices", rate, raising=False)
    assert rate_compatibility("CPUExecutionProvider", [0], "x") == "CPUExecutionProvider x"
    assert rate_compatibility("CPUExecutionProvider", [], "x") is None
    monkeypatch.delattr(state, "get_model_compatibility_for_ep_devices")
    assert rate_compatibility("CPUExecutionProvider", [0], "x") is None


def test_a_distribution_that_only_adds_a_library_to_the_module_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, files in (
        ("acme", ["acme_module/__init__.py"]),
        ("acme-gpu", ["acme_module/gpu.so"]),
    ):
        information = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        (information / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        for file in files:
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    assert find_distributions("acme_module", ("acme", "acme-gpu")) == (
        InstalledDistribution(name="acme", version="1.0"),
    )


def test_the_distribution_of_an_environment_below_this_one_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name in (("own", "acme-gpu"), ("below", "acme")):
        information = tmp_path / folder / f"{name.replace('-', '_')}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        (information / "RECORD").write_text("acme_layers/__init__.py,,\n")
        (tmp_path / folder / "acme_layers").mkdir()
        (tmp_path / folder / "acme_layers/__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "below"))
    monkeypatch.syspath_prepend(str(tmp_path / "own"))

    assert find_distributions("acme_layers", ("acme", "acme-gpu")) == (
        InstalledDistribution(name="acme-gpu", version="1.0"),
    )


def test_a_module_without_metadata_is_installed_without_version() -> None:
    assert find_distributions("json", ("no-such-distribution",)) == (
        InstalledDistribution(name="json", version=""),
    )
    assert find_distributions("no_such_module_anywhere", ("pytest",)) == ()


_REQUIRED = "meta=1.0;ov=2026.4.1;isa=Intel AVX2"


def _info(**changes: str) -> str:
    fields = {
        "ovep_compat_ver": "1.0",
        "ovep_ver": "1.8.1",
        "ovep_bin_ver": "1.1",
        "ov_compat_string": _REQUIRED,
    }
    return json.dumps({**fields, **changes})


@pytest.mark.parametrize(
    ("info", "rating"),
    [
        (_info(), CompiledModelCompatibility.OPTIMAL),
        (_info(ovep_ver="9.9"), CompiledModelCompatibility.OPTIMAL),
        (_info(ovep_bin_ver="1.9"), CompiledModelCompatibility.OPTIMAL),
        (_info(ovep_bin_ver="2.0"), CompiledModelCompatibility.UNSUPPORTED),
        (
            _info(ov_compat_string=_REQUIRED.replace("AVX2", "AVX512")),
            CompiledModelCompatibility.UNSUPPORTED,
        ),
        (
            _info(ov_compat_string=_REQUIRED.replace("2026.4.1", "2026.4.0")),
            CompiledModelCompatibility.UNSUPPORTED,
        ),
        (_info(ovep_compat_ver="1.7"), CompiledModelCompatibility.NOT_APPLICABLE),
        ("{}", CompiledModelCompatibility.NOT_APPLICABLE),
        ("[]", CompiledModelCompatibility.UNSUPPORTED),
        ("odd", CompiledModelCompatibility.UNSUPPORTED),
    ],
)
def test_strings_of_onnxruntimes_openvino_are_rated_as_it_rates_them(
    laptop: Hardware, info: str, rating: CompiledModelCompatibility
) -> None:
    asked = []

    def ask(device: str, _fingerprint: Mapping[str, object]) -> ProbeAnswer:
        asked.append(device)
        return ProbeAnswer(value=_REQUIRED)

    factory = OpenVinoEpFactory(ask_requirements=ask)
    assert factory.validate_compiled_model_compatibility_info(laptop[:1], info) is rating
    assert asked in ([], ["CPU"])


def test_an_openvino_that_does_not_say_what_its_models_need_rates_nothing(laptop: Hardware) -> None:
    factory = OpenVinoEpFactory(
        ask_requirements=lambda _device, _fingerprint: ProbeAnswer(value="")
    )
    rating = factory.validate_compiled_model_compatibility_info(laptop[:1], _info())
    assert rating is CompiledModelCompatibility.UNKNOWN


def test_openvino_says_what_its_models_need() -> None:
    pytest.importorskip("openvino")
    from ortpkg.runtime.providers.openvino_probe import runtime_requirements

    assert runtime_requirements("CPU").startswith("meta=")
