"""Try a plug-in's context on zeros in a child process before this process loads it.

:mod:`ortpkg.runtime.session.plugin_context_worker` runs in the child.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ortpkg.foundations.isolation.worker import Message, Worker
from ortpkg.machine.hardware import EpDevice
from ortpkg.machine.json_form import ep_device_to_json
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.providers.ep_factory import EpFactory
from ortpkg.runtime.providers.execution_provider import ExecutionProvider, FusedNode
from ortpkg.runtime.providers.library_traits import WeightForm
from ortpkg.runtime.providers.native_model import native_model
from ortpkg.runtime.providers.plugins import (
    ENTRY_POINT_GROUP,
    Plugin,
    PluginEpFactory,
    plugin_fingerprint,
    tries_first,
)
from ortpkg.runtime.providers.session_settings import SessionSettings

_FUNCTION = "ortpkg.runtime.session.plugin_context_worker:open_context_plugin"


@dataclass(frozen=True, slots=True)
class PluginContextLoader:
    """ContextLoader of a plug-in's provider, for certain devices and options.

    Attributes:
        plugin: the plug-in.
        ep_devices, options: the devices and options of its provider.
        settings: session options that the plug-in obeys.
    """

    plugin: Plugin
    ep_devices: Sequence[EpDevice]
    options: Mapping[str, str]
    settings: SessionSettings

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        return {
            "plugin": [self.plugin.name, self.plugin.value],
            **plugin_fingerprint(self.plugin),
            **self._made_for(),
        }

    def start(self, ep_name: str) -> Worker:
        del ep_name
        plugin = {"group": ENTRY_POINT_GROUP, "name": self.plugin.name, "value": self.plugin.value}
        return Worker(_FUNCTION, {**plugin, **self._made_for()})

    def load_request(self, entry: ContextEntry, fused: FusedNode) -> Message:
        model = native_model(fused.body, form=WeightForm.EXTERNAL)
        header = {
            "action": "import",
            "name": entry.name,
            "descriptor": entry.descriptor.to_json(),
            "digests": dict(entry.digests),
            "arity": entry.arity,
            "parts": list(entry.parts),
            "node": {
                "name": fused.node.name,
                "op_type": fused.node.op_type,
                "domain": fused.node.domain,
            },
            "inputs": list(model.inputs),
            "outputs": list(model.outputs),
            "folder": model.folder,
            "weights": [
                (name, weight.element_type, weight.shape) for name, weight in model.weights.items()
            ],
        }
        weights = [weight.data for weight in model.weights.values()]
        return Message(header=header, buffers=[model.data, *weights, *entry.parts.values()])

    def trial_requests(self, fused: FusedNode) -> Iterable[Message]:
        del fused
        return (Message(header={"action": "run"}),)

    def _made_for(self) -> Mapping[str, Any]:
        return {
            "devices": [ep_device_to_json(ep_device) for ep_device in self.ep_devices],
            "options": dict(self.options),
            "settings": self.settings.to_json(),
        }


def guard_first_loads(
    provider: ExecutionProvider,
    factory: EpFactory,
    devices: Sequence[EpDevice],
    options: Mapping[str, str],
) -> None:
    """Make a plug-in's provider load contexts in a child process first.

    Does nothing for ortpkg's own providers.
    """
    if (
        tries_first()
        and isinstance(factory, PluginEpFactory)
        and isinstance(provider, CompilingProvider)
    ):
        provider.load_first_by(
            partial(PluginContextLoader, factory.plugin, tuple(devices), dict(options))
        )
