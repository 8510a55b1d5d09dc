"""Candidates of a measurement: a variant on an EP device, with the arguments of its session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ortpkg.machine.hardware import DeviceType, EpDevice
from ortpkg.machine.json_form import ep_device_to_json
from ortpkg.package.formats.samples import TaskTolerance, Tolerance
from ortpkg.runtime.session.provider_list import EMBEDDED
from ortpkg.selection.matching.variant_facts import Precision

#: Backend → the option of its provider that sets the number of threads.
_THREAD_OPTIONS: Mapping[str, str] = {
    "openvino": "num_of_threads",
    "onnxruntime": "intra_op_num_threads",
}
_BACKENDS_ON_CPU = frozenset({DeviceType.CPU})


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchCandidate:
    """A variant on an EP device.

    Attributes:
        component_name, variant_name: the variant.
        ep_device: the EP device, with the backend that runs it.
        model_path: its ONNX file; None for one that cannot be measured.
        session_entries, provider_options: options of the package, as far as the option policy
            allows.
        context_digests: SHA-256 of the compiled contexts that the child may pass to native code;
            None for all that the model names.
        tolerances: output → tolerance for this variant; other outputs have the default of the
            precision.
        tasks: output → answers that decide instead of its tolerance.
        precision: precision that the variant computes in; None if unknown.
        obstacle: reason why it cannot be measured (it needs trust, it is not a single model); "" if
            it can.
    """

    component_name: str
    variant_name: str
    ep_device: EpDevice
    model_path: Path | None
    session_entries: Mapping[str, str] = field(default_factory=dict)
    provider_options: Mapping[str, str] = field(default_factory=dict)
    context_digests: tuple[str, ...] | None = None
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    tasks: Mapping[str, TaskTolerance] = field(default_factory=dict)
    precision: Precision | None = None
    obstacle: str = ""

    @property
    def label(self) -> str:
        """One line for people."""
        return f"{self.component_name}/{self.variant_name} on {self.ep_device.ep_and_backend}"

    def session_arguments(self, threads: int) -> dict[str, Any]:
        """Return the arguments of the session in ``child_worker``, as JSON.

        Threads are equal for all.
        """
        return {
            "model": str(self.model_path),
            "session_entries": {
                **self.session_entries,
                "session.intra_op_num_threads": str(threads),
            },
            "provider_options": {
                **self.provider_options,
                **thread_options(self.ep_device, threads),
            },
            "ep_device": ep_device_to_json(self.ep_device),
            "context_digests": None if self.context_digests is None else list(self.context_digests),
        }


def thread_options(ep_device: EpDevice, threads: int) -> dict[str, str]:
    """Return the provider options that set the number of threads of the backend of ``ep_device``.

    The embedded engine takes it from the session's options, as a plug-in may; on a GPU or NPU there
    is nothing to set.
    """
    on_cpu = ep_device.device is None or ep_device.device.type in _BACKENDS_ON_CPU
    option = _THREAD_OPTIONS.get(ep_device.backend) if on_cpu else None
    return {} if option is None else {option: str(threads)}


def is_embedded(ep_device: EpDevice) -> bool:
    """Return True if ortpkg's own engine runs on the EP device."""
    return ep_device.backend == EMBEDDED
