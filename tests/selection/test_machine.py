"""What a machine offers: this one's factories, and the EP devices of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortpkg.compiler.machine_code.cpu_targets import CpuTarget, target_named
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import ExecutionProviderError, UsageError
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.profiles import make_profile, read_profile
from ortpkg.runtime.providers import ep_registry, onnxruntime_factory
from ortpkg.runtime.providers import machine_offer as machine
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.ep_registry import AvailableFactories
from ortpkg.runtime.providers.installed_distribution import InstalledDistribution
from ortpkg.runtime.providers.llvm.llvm_compatibility import compatibility_info, rate
from ortpkg.runtime.providers.machine_offer import (
    MachineOffer,
    asked_once,
    discover_ep_devices,
    offer_of_profile,
    this_machine,
)
from ortpkg.runtime.providers.onnxruntime_factory import OnnxRuntimeEpFactory
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory

_ONNXRUNTIME = (InstalledDistribution(name="onnxruntime-qnn", version="1.31.1"),)


class _Installed(OpenVinoEpFactory):
    """An OpenVINO that calls every string optimal."""

    version = "2026.4.1"

    def is_available(self) -> bool:
        return True

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        return CompiledModelCompatibility.OPTIMAL


@pytest.fixture(autouse=True)
def only_this_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ep_registry.BUILT_IN_FACTORIES, "OpenVINOExecutionProvider", _Installed)
    monkeypatch.setattr(ep_registry, "list_ep_names", lambda _hardware: ("CPUExecutionProvider",))


def test_the_offer_of_a_profile_is_what_the_profile_says() -> None:
    profile = read_profile("snapdragon-x-laptop")

    offer = offer_of_profile(profile)

    assert offer.machine is profile.machine
    assert offer.ep_devices is profile.ep_devices
    assert offer.notes == (
        "the machine profile 'snapdragon-x-laptop' is constructed: nobody probed such a machine",
    )


@pytest.mark.requirement("K10")
def test_an_ep_that_is_not_installed_gives_compatibility_unknown() -> None:
    offer = offer_of_profile(read_profile("snapdragon-x-laptop"))

    assert offer.compatibility(offer.ep_devices[0], "soc60") is CompiledModelCompatibility.UNKNOWN


@pytest.mark.requirement("K10")
def test_an_installed_ep_rates_a_profiles_string_only_in_the_same_version() -> None:
    same = read_profile("intel-core-ultra-laptop")
    older = replace(
        same, ep_devices=tuple(replace(each, ep_version="2025.1.0") for each in same.ep_devices)
    )
    unsaid = replace(
        same, ep_devices=tuple(replace(each, ep_version="") for each in same.ep_devices)
    )

    rated = [
        offer_of_profile(each).compatibility(each.ep_devices[2], "x")
        for each in (same, older, unsaid)
    ]

    assert rated == [
        CompiledModelCompatibility.OPTIMAL,
        CompiledModelCompatibility.UNKNOWN,
        CompiledModelCompatibility.UNKNOWN,
    ]


@pytest.mark.requirement("K10")
def test_onnxruntime_rates_a_profiles_string_for_a_device_that_it_has_here_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = read_profile("snapdragon-x-laptop")
    npu = profile.ep_devices[0].device
    assert npu is not None
    offers = {
        "providers": ["QNNExecutionProvider"],
        "ep_devices": [
            {
                "ep_name": "QNNExecutionProvider",
                "type": "npu",
                "vendor_id": npu.vendor_id,
                "device_id": npu.device_id,
            }
        ],
    }
    monkeypatch.setattr(ep_registry, "list_ep_names", lambda _hardware: ("QNNExecutionProvider",))
    monkeypatch.setattr(onnxruntime_factory, "installed_distributions", lambda: _ONNXRUNTIME)
    monkeypatch.setattr(
        ep_registry,
        "OnnxRuntimeEpFactory",
        lambda name: OnnxRuntimeEpFactory(
            name,
            lambda _: ProbeAnswer(value=offers),
            lambda *_: ProbeAnswer(value="EP_UNSUPPORTED"),
        ),
    )

    offer = offer_of_profile(profile)

    assert (
        offer.compatibility(offer.ep_devices[0], "soc60") is CompiledModelCompatibility.UNSUPPORTED
    )
    assert offer.compatibility(offer.ep_devices[1], "soc60") is CompiledModelCompatibility.UNKNOWN


def test_the_embedded_cpu_provider_is_the_same_everywhere() -> None:
    offer = offer_of_profile(read_profile("plain-server"))

    assert (
        offer.compatibility(offer.ep_devices[-1], "x") is CompiledModelCompatibility.NOT_APPLICABLE
    )


class _Told(OpenVinoEpFactory):
    """A factory that answers what it is told to."""

    def __init__(self, ep_name: str, answer: object, note: str = "") -> None:
        self.ep_name, self._answer, self._note = ep_name, answer, note

    @property
    def nothing_offered_note(self) -> str:
        return self._note

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer  # type: ignore[return-value]


class _Noting(_Told):
    """A factory that says something beside its devices."""

    offer_note = "it works, and cuDNN is missing"


_QNN, _CUDA = "QNNExecutionProvider", "CUDAExecutionProvider"
_CPU = HardwareDevice(type=DeviceType.CPU, name="CPU")


def _device(ep_name: str, backend: str = "openvino") -> EpDevice:
    return EpDevice(ep_name=ep_name, device=_CPU, backend=backend)


def _offer(monkeypatch: pytest.MonkeyPatch, *factories: _Told, **wishes: Any) -> MachineOffer:
    found = AvailableFactories(factories=factories, notes=("a note", "a note"))
    monkeypatch.setattr(machine, "available_factories", lambda _hardware, **_asked: found)
    return discover_ep_devices(Machine(os="linux", hardware=(_CPU,)), **wishes)


def test_what_a_factory_says_beside_its_devices_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    offering = _Noting(_CUDA, [_device(_CUDA)])
    assert _offer(monkeypatch, offering).notes == ("a note", _Noting.offer_note)
    assert _offer(monkeypatch, _Noting(_CUDA, [])).notes == ("a note",)


@pytest.mark.parametrize(
    ("wishes", "is_told"),
    [
        ({}, True),
        ({"ep": "qnn"}, True),
        ({"ep": _QNN, "named": [_CUDA]}, True),
        ({"named": ["qnn", "cpu"]}, True),
        ({"ep": "cuda"}, False),
        ({"named": [_CUDA]}, False),
    ],
)
def test_a_provider_that_offers_nothing_is_told_of_where_it_is_meant(
    monkeypatch: pytest.MonkeyPatch, wishes: dict[str, Any], is_told: bool
) -> None:
    factories = [
        _Told(_QNN, [], "nothing here"),
        _Told(_CUDA, [_device(_CUDA)], "not said"),
        _Told("A", []),
    ]

    offer = _offer(monkeypatch, *factories, **wishes)

    assert offer.notes == (("a note", "nothing here") if is_told else ("a note",))
    assert offer.ep_devices == (_device(_CUDA),)


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (ExecutionProviderError("it crashed", ep_name=_QNN), "it crashed"),
        (ValueError("odd"), f"{_QNN} (openvino) failed to report its devices: ValueError: 'odd'"),
        (
            None,
            (
                f"{_QNN} (openvino) reported 'None' where an EpDevice of its own name and backend"
                " belongs"
            ),
        ),
        (
            [_device(_QNN), 3],
            f"{_QNN} (openvino) reported '3' where an EpDevice of its own name and backend belongs",
        ),
        ([_device(_CUDA)], f"{_QNN} (openvino) reported "),
        ([_device(_QNN, "other")], f"{_QNN} (openvino) reported "),
        (
            [EpDevice(ep_name=_QNN, device="cpu", backend="openvino")],  # type: ignore[arg-type]
            f"{_QNN} (openvino) reported ",
        ),
    ],
    ids=[
        "its own error",
        "any error",
        "nothing",
        "a number",
        "another's",
        "another backend's",
        "no device",
    ],
)
def test_a_factory_that_fails_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, answer: object, note: str
) -> None:
    offer = _offer(monkeypatch, _Told(_QNN, answer), _Told(_CUDA, (_device(_CUDA),)))

    assert offer.ep_devices == (_device(_CUDA),)
    assert offer.notes[0] == "a note"
    assert offer.notes[1].startswith(note)


def test_a_machine_is_asked_once_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[frozenset[str]] = []

    def discover(found: Machine, *, named: frozenset[str]) -> MachineOffer:
        asked.append(named)
        return MachineOffer(machine=found, ep_devices=())

    monkeypatch.setattr(machine, "probe", lambda: Machine(os="linux", hardware=(_CPU,)))
    monkeypatch.setattr(machine, "discover_ep_devices", discover)
    with asked_once():
        first = this_machine(ep="a", named=["b"])
        assert this_machine(named=["a", "b"]) is first
        assert this_machine() is not first
    assert asked == [{"a", "b"}, set()]
    this_machine()
    this_machine()
    assert len(asked) == 4


def test_an_emulated_device_of_an_unknown_provider_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORTPKG_EMULATED_DEVICES", "qnn, foo")
    with pytest.raises(
        UsageError, match=r"ORTPKG_EMULATED_DEVICES: there is no execution provider 'foo'"
    ):
        this_machine()


@pytest.mark.parametrize("variable", ["ORTPKG_CACHE_DIR", "ORTPKG_STATE_DIR"])
def test_a_folder_of_the_environment_that_cannot_be_made_is_told_once(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv(variable, str(file / "folder"))
    this_machine()
    this_machine()
    (told,) = [each for each in caplog.messages if variable in each]
    assert (
        told == f"{variable} is '{file}/folder', and '{file}' is no folder: nothing is kept there"
    )


_ARM_BOARD = HardwareDevice(
    type=DeviceType.CPU, name="Cortex-A76", architecture="cortex_a76",
    metadata={"instruction_sets": "fp asimd evtstrm aes crc32 atomics fphp asimdhp asimddp"},
)  # fmt: skip
_APPLE = HardwareDevice(type=DeviceType.CPU, name="Apple M2", architecture="m2")
_X86 = HardwareDevice(type=DeviceType.CPU, name="Xeon", architecture="icelake")
_TARGETS = (
    "linux-x86_64_v4",
    "linux-x86_64_v3",
    "windows-x86_64_v3",
    "linux-aarch64_dotprod",
    "linux-aarch64",
    "macos-arm64",
)


@pytest.mark.parametrize(
    ("os", "cpu", "nearest", "others"),
    [
        ("windows", _X86, "windows-x86_64_v3", set()),
        ("linux", _X86, "linux-x86_64_v4", {"linux-x86_64_v3"}),
        ("linux", _ARM_BOARD, "linux-aarch64_dotprod", {"linux-aarch64"}),
        ("macos", _APPLE, "macos-arm64", set()),
    ],
)
def test_machine_code_is_rated_for_the_system_of_the_profile(
    os: str, cpu: HardwareDevice, nearest: str, others: set[str]
) -> None:
    engine = EpDevice(ep_name=CPU_EP, device=cpu, ep_vendor="ortpkg")
    profile = make_profile("board", Machine(os=os, hardware=(cpu,)), [engine], software={})
    infos = {name: compatibility_info(target_named(name)) for name in _TARGETS}

    for software, rated_older in (
        ({}, CompiledModelCompatibility.OPTIMAL),
        ({"llvmlite": "0.50.0"}, CompiledModelCompatibility.PREFER_RECOMPILATION),
    ):
        offer = offer_of_profile(replace(profile, software=software), named=["llvm"])
        (machine_code,) = (each for each in offer.ep_devices if each.backend == "llvm")
        rated = {name: offer.compatibility(machine_code, info) for name, info in infos.items()}
        assert rated.pop(nearest) is CompiledModelCompatibility.OPTIMAL
        assert {name: rated.pop(name) for name in others} == dict.fromkeys(others, rated_older)
        assert set(rated.values()) == {CompiledModelCompatibility.UNSUPPORTED}
        assert offer.compiled_distance(machine_code, infos[nearest]) < min(
            (offer.compiled_distance(machine_code, infos[name]) for name in others), default=99
        )


_OLD_CODE = (
    "it was compiled by {} of the compiler, and code from before version 3 may write past the end"
    " of a buffer; compile the model anew"
)


def _older(target: CpuTarget) -> tuple[tuple[str, str], ...]:
    """Strings of code that is not to be run any more, and who compiled it."""
    now = compatibility_info(target)
    assert ";compiler=4;" in now
    return (
        (now.replace(";compiler=4", ";compiler=2"), "version 2"),
        (now.replace(";compiler=4", ""), "no known version"),
        (now.replace(";compiler=4", ";compiler=\u0663"), "no known version"),
    )


def test_code_of_a_compiler_that_was_wrong_is_unsupported_with_a_compiler_and_without() -> None:
    devices = [_ARM_BOARD]
    for info, _ in _older(target_named("linux-aarch64_dotprod")):
        for can_compile in (False, True):
            assert (
                rate(devices, info, os="linux", can_compile=can_compile)
                is CompiledModelCompatibility.UNSUPPORTED
            )


def test_a_refusal_of_machine_code_names_the_system_or_the_features_that_are_missing() -> None:
    offer = offer_of_profile(
        make_profile(
            "board",
            Machine(os="linux", hardware=(_ARM_BOARD,)),
            [EpDevice(ep_name=CPU_EP, device=_ARM_BOARD, ep_vendor="ortpkg")],
            software={},
        ),
        named=["llvm"],
    )
    (machine_code,) = (each for each in offer.ep_devices if each.backend == "llvm")
    dot_products, apple = target_named("linux-aarch64_dotprod"), target_named("macos-arm64")

    for info, reason in (
        (compatibility_info(dot_products, ["bf16"]), "the CPU lacks bf16"),
        (compatibility_info(apple), "it is for macos, and this is 'linux'"),
        (compatibility_info(dot_products), ""),
        ("llvm;abi=999", "it is no compatibility string of ABI 1"),
        *((without, _OLD_CODE.format(which)) for without, which in _older(dot_products)),
    ):
        assert offer.compiled_refusal(machine_code, info) == reason, info


def test_a_profile_without_our_engine_has_no_machine_code_either() -> None:
    laptop = read_profile("plain-server")
    foreign = replace(
        laptop, ep_devices=tuple(each for each in laptop.ep_devices if each.backend != "embedded")
    )

    assert offer_of_profile(foreign, named=["llvm"]).ep_devices == foreign.ep_devices
    backends = [each.backend for each in offer_of_profile(laptop, named=["llvm"]).ep_devices]
    assert backends == [*(each.backend for each in laptop.ep_devices), "llvm"]
