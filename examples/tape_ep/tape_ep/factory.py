# tape_ep/factory.py
"""The light side, asked while a variant is selected: loads neither numpy nor onnx."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ortpkg.api.execution_providers import (
    CompiledModelCompatibility,
    CpuDevicesEpFactory,
    HardwareDevice,
)

if TYPE_CHECKING:
    from ortpkg.api.execution_providers import EpDevice, ExecutionProvider

NAME = "TapeExecutionProvider"
#: Of the compiler. The same major version runs a tape; the same version makes the same one.
VERSION = "2.0"
KIND = "tape;version="


class TapeFactory(CpuDevicesEpFactory):  # available wherever it is installed, on each CPU
    ep_name = NAME
    vendor = "Tape Inc."
    backend = "tape"
    version = VERSION

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        kind, _, made_by = info.partition("=")
        if f"{kind}=" != KIND or not is_readable(made_by):
            return CompiledModelCompatibility.UNSUPPORTED
        if made_by == VERSION:
            return CompiledModelCompatibility.OPTIMAL
        return CompiledModelCompatibility.PREFER_RECOMPILATION

    def create(
        self, devices: Sequence["EpDevice"], options: Mapping[str, str]
    ) -> "ExecutionProvider":
        from tape_ep.provider import TapeProvider  # heavy: only where a session is made

        made: ExecutionProvider = TapeProvider(NAME, ep_devices=devices, options=options)
        return made


def is_readable(made_by: str) -> bool:
    """Whether this release runs what that one compiled."""
    return made_by.partition(".")[0] == VERSION.partition(".")[0]
