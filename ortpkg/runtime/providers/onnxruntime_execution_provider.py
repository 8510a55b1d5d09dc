"""Provider of the bridge with onnxruntime in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.bridged_execution_provider import BridgedExecutionProvider
from ortpkg.runtime.providers.onnxruntime_contexts import open_onnxruntime


class OnnxRuntimeExecutionProvider(BridgedExecutionProvider):
    """One execution provider of onnxruntime in one session.

    Raises:
        ExecutionProviderError: this build of onnxruntime does not have the provider.
    """

    def __init__(
        self,
        ep_name: str,
        *,
        ep_devices: Sequence[EpDevice] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        library = open_onnxruntime(ep_name, ep_devices=ep_devices, options=options)
        super().__init__(ep_name, library, ep_devices=ep_devices, options=options)
