"""OpenVINOExecutionProvider: sub-graphs, and contexts, on OpenVINO's CPU, GPU or NPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.native_execution_provider import NativeExecutionProvider
from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary


class OpenVINOExecutionProvider(NativeExecutionProvider):
    """One OpenVINO device (or virtual device such as "AUTO:GPU,CPU") in one session.

    Raises:
        InvalidSessionOptionError: an option is unknown.
    """

    def __init__(
        self, *, ep_devices: Sequence[EpDevice] = (), options: Mapping[str, str] | None = None
    ) -> None:
        library = OpenVinoLibrary(ep_devices=ep_devices, options=options)
        super().__init__(OPENVINO_EP, library, ep_devices=ep_devices, options=options)
