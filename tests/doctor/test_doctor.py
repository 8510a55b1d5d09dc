"""The checks of doctor, each on a constructed situation that has it; and what it never tells."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortpkg.api.doctor.diagnosis import (
    clean,
    doctor,
    report_lines,
    report_to_json,
    report_to_markdown,
)
from ortpkg.api.doctor.doctor_checks import CHECKS, Complaint, Gravity, examine
from ortpkg.api.doctor.missing_eps import REMEDIES
from ortpkg.api.doctor.situation import DeviceFile, Situation, device_files, gather
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.profiles import read_profile
from ortpkg.runtime.providers.ep_discovery.library_refusals import (
    HALF_INSTALLED,
    refusal_sentence,
    refusal_text,
)

_CPU = HardwareDevice(
    type=DeviceType.CPU,
    name="CPU",
    vendor="Intel",
    vendor_id=0x8086,
    metadata={"logical_cores": "8"},
)


def _device(device_type: DeviceType, vendor: str, **metadata: str) -> HardwareDevice:
    return HardwareDevice(
        type=device_type, name=f"{vendor} {device_type.upper()}", vendor=vendor, metadata=metadata
    )


def _offer(ep_name: str, device: HardwareDevice | None, backend: str = "onnxruntime") -> EpDevice:
    return EpDevice(ep_name=ep_name, device=device, backend=backend)


def _situation(
    *devices: HardwareDevice, offers: tuple[EpDevice, ...] = (), **facts: Any
) -> Situation:
    machine = Machine(os="linux", hardware=(_CPU, *devices), notes=facts.pop("notes", ()))
    cpu = _offer("CPUExecutionProvider", _CPU)
    return Situation(machine=machine, ep_devices=(*offers, cpu), **facts)


def _one(situation: Situation, check: str) -> Complaint:
    found = [complaint for complaint in examine(situation) if complaint.check == check]
    assert len(found) == 1, found
    return found[0]


def test_a_machine_on_which_all_is_well_has_no_complaint() -> None:
    assert examine(_situation()) == ()


_NPU = _device(DeviceType.NPU, "Intel", driver="intel_vpu")
_GPU = _device(DeviceType.GPU, "NVIDIA", driver="nvidia")
_ACCEL = DeviceFile(name="/dev/accel/accel0", is_usable=True)
_NO_FILE = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("situation", "check", "gravity", "message", "remedy"),
    [
        (
            _situation(
                software={"openvino": "2023.3.0", "onnx": "1.19.0rc1"},
                requirements=("openvino>=2024.4", "onnx>=1.18"),
            ),
            "unsupported-version",
            Gravity.WARNING,
            "openvino 2023.3.0 is installed; ortpkg needs openvino>=2024.4",
            "pip install 'openvino>=2024.4'",
        ),
        (
            _situation(overlapping=("onnxruntime", "ort-nightly")),
            "overlapping-onnxruntime",
            Gravity.ERROR,
            (
                "several distributions install the module onnxruntime and overwrite each other:"
                " onnxruntime, ort-nightly"
            ),
            "pip uninstall -y onnxruntime ort-nightly, then install the one that you need",
        ),
        (
            _situation(
                failures=(
                    "the library behind OpenVINOExecutionProvider failed: it was ended by SIGSEGV",
                )
            ),
            "failed-backend",
            Gravity.ERROR,
            "the library behind OpenVINOExecutionProvider failed: it was ended by SIGSEGV",
            "install it again, or update its driver; ORTPKG_PROBE_AGAIN=1 asks it again",
        ),
        (
            _situation(displaced={"b 2 is not used": "pip uninstall b"}),
            "displaced-library",
            Gravity.INFO,
            "b 2 is not used",
            "pip uninstall b",
        ),
        (
            _situation(
                refused_libraries={
                    "onnxruntime/capi/libonnxruntime.so.1": "libstdc++.so.6: " + _NO_FILE
                }
            ),
            "missing-library",
            Gravity.ERROR,
            f"onnxruntime/capi/libonnxruntime.so.1 cannot be loaded: libstdc++.so.6: {_NO_FILE}",
            "install it with the system's package manager",
        ),
        (
            _situation(
                refused_libraries={
                    "openvino/libs/libopenvino_intel_gpu_plugin.so": "libOpenCL.so.1: " + _NO_FILE
                }
            ),
            "missing-library",
            Gravity.INFO,
            (
                "openvino/libs/libopenvino_intel_gpu_plugin.so cannot be loaded: libOpenCL.so.1: "
                + _NO_FILE
            ),
            "nothing, as long as there is no Intel GPU",
        ),
        (
            _situation(
                _GPU,
                offers=(_offer("CUDAExecutionProvider", None),),
                device_files=(DeviceFile(name="/dev/nvidia0", is_usable=True),),
                refused_libraries={
                    "onnxruntime/capi/libonnxruntime_providers_cuda.so": "libcudnn.so.9: "
                    + _NO_FILE
                },
            ),
            "missing-library",
            Gravity.ERROR,
            (
                "onnxruntime/capi/libonnxruntime_providers_cuda.so cannot be loaded: libcudnn.so.9: "
                + _NO_FILE
            ),
            REMEDIES["NVIDIA", DeviceType.GPU],
        ),
        (
            _situation(_NPU, device_files=(_ACCEL,)),
            "unclaimed-device",
            Gravity.WARNING,
            "no execution provider here runs on the NPU 'Intel NPU'",
            (
                "pip install openvino, and Intel's NPU driver: intel-driver-compiler-npu and"
                " intel-level-zero-npu (Linux)"
            ),
        ),
        (
            _situation(_device(DeviceType.NPU, "Acme")),
            "unclaimed-device",
            Gravity.WARNING,
            "no execution provider here runs on the NPU 'Acme NPU'",
            "install the vendor's execution provider",
        ),
        (
            _situation(notes=("0000:03:00.0: Intel GPU [8086:56a0]: no driver is bound to it",)),
            "unusable-device",
            Gravity.WARNING,
            "0000:03:00.0: Intel GPU [8086:56a0]: no driver is bound to it",
            "install the vendor's driver",
        ),
        (
            _situation(
                device_files=(
                    DeviceFile(name="/dev/dri/renderD128", is_usable=False, group="render"),
                )
            ),
            "forbidden-device-file",
            Gravity.ERROR,
            "this user may not use /dev/dri/renderD128",
            "sudo usermod -aG render $USER, then log in again",
        ),
        (
            _situation(_GPU, offers=(_offer("CUDAExecutionProvider", None),)),
            "missing-device-file",
            Gravity.WARNING,
            "'NVIDIA GPU' has a driver, but there is no /dev/nvidia*: a container without it?",
            "docker run --gpus all",
        ),
        (
            _situation(is_cache_usable=False),
            "cache-not-writable",
            Gravity.WARNING,
            "the cache directory cannot be written: backends are asked again by every process",
            "set ORTPKG_CACHE_DIR to a directory that can be written",
        ),
        (
            _situation(variables={"OPENBLAS_NUM_THREADS": "1"}),
            "few-threads",
            Gravity.INFO,
            "OPENBLAS_NUM_THREADS=1, so that matrix products use 1 of 8 cores",
            "unset OPENBLAS_NUM_THREADS unless that is meant",
        ),
        (
            _situation(variables={"OPENBLAS_CORETYPE": "Haswell"}),
            "pinned-openblas",
            Gravity.INFO,
            (
                "OPENBLAS_CORETYPE=Haswell makes OpenBLAS use the kernels of that CPU, whatever"
                " this one is"
            ),
            "unset OPENBLAS_CORETYPE unless that is meant",
        ),
        (
            _situation(usable_cores=2),
            "few-cores",
            Gravity.INFO,
            "this process may use 2 of 8 logical cores (its CPU affinity)",
            "",
        ),
        (
            replace(_situation(), ep_devices=(_offer("CPUExecutionProvider", _CPU, "embedded"),)),
            "embedded-engine-only",
            Gravity.INFO,
            (
                "neither onnxruntime nor openvino works here: models run on the embedded engine,"
                " which is slower"
            ),
            (
                "pip install onnxruntime openvino; or the extra llvm of ortpkg, which compiles"
                " models to machine code"
            ),
        ),
    ],
)
def test_each_check_says_what_is_so_and_what_to_do(
    situation: Situation, check: str, gravity: Gravity, message: str, remedy: str
) -> None:
    complaint = _one(situation, check)

    assert (complaint.gravity, complaint.message, complaint.remedy) == (gravity, message, remedy)


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        (f"libcuda.so.1: {_NO_FILE}", "install what is missing"),
        (
            "undefined symbol: OrtX",
            "its wheel is for another onnxruntime, or brings no execution provider",
        ),
        (
            "invalid ELF header",
            "the file is damaged, or for another system: install its wheel again",
        ),
        ("it does not like this machine", ""),
    ],
)
def test_a_refused_library_has_the_remedy_of_its_refusal(reason: str, remedy: str) -> None:
    again = "ortpkg devices asks it again"
    for sentence in (
        refusal_sentence("acme (onnxruntime-acme 1)", reason),
        f"onnxruntime-acme 1 is not used: {refusal_text(reason)}",
    ):
        complaint = _one(_situation(failures=(sentence,)), "failed-backend")
        assert complaint.message.endswith(f": {reason}")
        assert complaint.remedy == (f"{remedy}; {again}" if remedy else again)


def test_a_half_installed_wheel_has_its_own_remedy() -> None:
    sentence = f"acme 1 is not used: it lacks 'x.so', which is not there{HALF_INSTALLED}acme"
    complaint = _one(_situation(failures=(sentence,)), "failed-backend")
    assert complaint.message == "acme 1 is not used: it lacks 'x.so', which is not there"
    assert complaint.remedy == "pip install --force-reinstall acme"


def test_every_check_is_shown_to_complain_above() -> None:
    marks = test_each_check_says_what_is_so_and_what_to_do.pytestmark  # type: ignore[attr-defined]

    assert len({row[1] for row in marks[0].args[1]}) >= len(CHECKS)


@pytest.mark.parametrize(
    ("device", "offer"),
    [
        (_NPU, _offer("OpenVINOExecutionProvider", _NPU, "openvino")),
        (_GPU, _offer("CUDAExecutionProvider", None)),
        (_GPU, _offer("DmlExecutionProvider", None)),
        (_device(DeviceType.NPU, "Apple"), _offer("CoreMLExecutionProvider", None)),
    ],
)
def test_a_device_that_an_ep_reports_or_is_made_for_is_claimed(
    device: HardwareDevice, offer: EpDevice
) -> None:
    assert "unclaimed-device" not in {
        each.check for each in examine(_situation(device, offers=(offer,)))
    }


_CUDA = "CUDAExecutionProvider (onnxruntime-gpu 1.31.1) cannot run here: "
_TENSORRT = _CUDA.replace("CUDA", "Tensorrt", 1)


def test_a_provider_that_lacks_a_wheel_is_told_with_that_wheel_once() -> None:
    library = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    complaint = _one(
        _situation(
            _GPU,
            failures=(f"{_CUDA}CUDA 13's cuBLAS is missing: pip install nvidia-cublas",),
            refused_libraries={library: "libcublas.so.13: " + _NO_FILE},
        ),
        "failed-backend",
    )

    assert (complaint.gravity, complaint.message, complaint.remedy) == (
        Gravity.ERROR,
        f"{_CUDA}CUDA 13's cuBLAS is missing",
        "pip install nvidia-cublas",
    )
    assert "missing-library" not in {
        other.check
        for other in examine(
            _situation(
                _GPU,
                failures=(f"{_CUDA}no driver",),
                refused_libraries={library: "libcublas.so.13: " + _NO_FILE},
            )
        )
    }


def test_a_provider_of_a_gpu_that_another_one_runs_on_is_no_error() -> None:
    failure = f"{_TENSORRT}libnvinfer.so.10: {_NO_FILE}: pip install tensorrt-cu13"
    complaint = _one(
        _situation(_GPU, offers=(_offer("CUDAExecutionProvider", _GPU),), failures=(failure,)),
        "failed-backend",
    )

    assert (complaint.gravity, complaint.remedy) == (
        Gravity.INFO,
        "pip install tensorrt-cu13, if you want it: another execution provider runs there",
    )


@pytest.mark.parametrize(
    ("device", "gravity"), [(_GPU, Gravity.ERROR), (_device(DeviceType.GPU, "AMD"), Gravity.INFO)]
)
def test_a_vendors_library_that_fails_where_no_such_device_is_matters_little(
    device: HardwareDevice, gravity: Gravity
) -> None:
    failure = "the library behind NvTensorRTRTXExecutionProvider failed: libcuda.so.1: " + _NO_FILE
    complaint = _one(_situation(device, failures=(failure,)), "failed-backend")

    assert complaint.gravity is gravity
    is_spared = complaint.remedy == "nothing, as long as there is no NVIDIA device"
    assert is_spared is (gravity is Gravity.INFO)


def test_a_library_whose_provider_was_tried_and_runs_is_no_complaint() -> None:
    library = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    situation = _situation(
        _GPU,
        offers=(_offer("CUDAExecutionProvider", _GPU),),
        refused_libraries={library: "undefined symbol: Provider_GetHost"},
        device_files=(DeviceFile(name="/dev/nvidia0", is_usable=True),),
    )

    assert examine(situation) == ()


def test_an_ep_without_devices_claims_no_other_vendors_device() -> None:
    other = _device(DeviceType.GPU, "AMD")

    complaint = _one(
        _situation(other, offers=(_offer("CUDAExecutionProvider", None),)), "unclaimed-device"
    )

    assert "onnxruntime-migraphx" in complaint.remedy


@pytest.mark.parametrize(
    "name", ["intel-core-ultra-laptop", "rtx-workstation", "snapdragon-x-laptop", "plain-server"]
)
def test_on_the_machines_of_the_built_in_profiles_every_device_is_claimed(name: str) -> None:
    profile = read_profile(name)
    situation = Situation(machine=profile.machine, ep_devices=profile.ep_devices)

    assert "unclaimed-device" not in {each.check for each in examine(situation)}


def test_errors_come_first() -> None:
    situation = _situation(_NPU, usable_cores=1, overlapping=("a", "b"), is_cache_usable=False)

    gravities = [each.gravity for each in examine(situation)]

    assert gravities == sorted(gravities, key=list(Gravity).index)
    assert gravities[0] is Gravity.ERROR


# --- what it never tells --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("/home/alice/models/x.so is gone", "/home/<user>/models/x.so is gone"),
        ("'/Users/Bob/lib'", "'/Users/<user>/lib'"),
        (r"C:\Users\carol\AppData", r"C:\Users\<user>\AppData"),
        (r"'C:\\Users\\carol\\AppData'", r"'C:\\Users\\<user>\\AppData'"),
        (
            f"{sys.prefix}/lib/x",
            (
                "<environment>/lib/x"
                if sys.prefix not in {"/usr", "/usr/local"}
                else f"{sys.prefix}/lib/x"
            ),
        ),
    ],
)
def test_homes_are_not_told(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_the_user_is_not_told_wherever_the_home_lies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "constructed-user"))
    monkeypatch.setenv("USER", "constructed-user")
    situation = _situation(
        failures=(f"cannot open '{tmp_path}/constructed-user/x' and /data/constructed-user/y",)
    )

    report = doctor(situation)

    for text in (
        report_to_markdown(report),
        json.dumps(report_to_json(report)),
        "\n".join(report_lines(report)),
    ):
        assert "constructed-user" not in text
        assert "~/x" in text


def test_of_the_environment_only_plain_values_of_known_variables_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("KMP_AFFINITY", "a secret, with blanks")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/srv/secret")
    monkeypatch.setenv("API_TOKEN", "constructed-token")

    situation = gather()

    assert situation.variables["OMP_NUM_THREADS"] == "2"
    assert (situation.variables["KMP_AFFINITY"], situation.variables["LD_LIBRARY_PATH"]) == (
        None,
        None,
    )
    assert "secret" not in report_to_markdown(doctor(situation))
    assert "constructed-token" not in json.dumps(report_to_json(doctor(situation)))


def test_a_name_with_a_fence_does_not_end_the_block() -> None:
    report = doctor(_situation(_device(DeviceType.NPU, "```\n# Not mine")))

    text = report_to_markdown(report)

    assert text.startswith("### ortpkg doctor\n\n````text\n")
    assert text.endswith("\n````\n")


def test_device_files_are_found_with_the_group_that_may_use_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("dri/renderD128", "dri/card0", "accel/accel0", "nvidia0", "nvidiactl", "null"):
        (tmp_path / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dev" / name).touch(mode=0o660)
    monkeypatch.setattr("os.access", lambda path, _mode: "dri" not in str(path))

    found = device_files(tmp_path)

    assert [each.name for each in found] == [
        "/dev/dri/renderD128",
        "/dev/accel/accel0",
        "/dev/nvidia0",
        "/dev/nvidiactl",
    ]
    assert [each.is_usable for each in found] == [False, True, True, True]
    assert [bool(each.group) for each in found] == [sys.platform != "win32", False, False, False]
