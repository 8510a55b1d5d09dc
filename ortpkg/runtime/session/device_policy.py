"""EP devices that a policy, or a function of the caller, chooses for a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.graph.model import Model
from ortpkg.machine.hardware import EpDevice
from ortpkg.machine.policies import POLICIES, device_kind
from ortpkg.runtime.session.values.onnxruntime_enums import OrtExecutionProviderDevicePolicy
from ortpkg.runtime.session.values.ort_ep_device import OrtEpDevice, offered_ep_devices

#: Called with all devices, the model's metadata, the runtime's metadata (empty), and the most
#: devices to choose.
PolicyDelegate = Callable[
    [Sequence[OrtEpDevice], Mapping[str, str], Mapping[str, str], int], Sequence[OrtEpDevice]
]
DevicePolicy = OrtExecutionProviderDevicePolicy | PolicyDelegate

_MOST_CHOSEN = 8


def devices_of_policy(policy: DevicePolicy, model: Model) -> list[EpDevice]:
    """Return the devices to use, in order; the session adds the embedded CPU provider.

    A policy gives one device: the first of the most preferred kind that the machine has. DEFAULT
    prefers the CPU, as in onnxruntime.

    Raises:
        UsageError: a function chose no device, too many, or one that was not offered.
    """
    offered = offered_ep_devices()
    if isinstance(policy, OrtExecutionProviderDevicePolicy):
        name = policy.name.lower().replace("_", "-")
        order = POLICIES[
            "prefer-cpu" if policy is OrtExecutionProviderDevicePolicy.DEFAULT else name
        ]
        return [
            min(
                (ep_device.ep_device for ep_device in offered),
                key=lambda candidate: order.preference(device_kind(candidate)),
            )
        ]
    chosen = list(policy(tuple(offered), _metadata(model), {}, _MOST_CHOSEN))
    if not 0 < len(chosen) <= _MOST_CHOSEN:
        raise UsageError(
            f"the policy's function chose {len(chosen)} devices; 1 to {_MOST_CHOSEN} were expected"
        )
    for device in chosen:
        if device not in offered:
            raise UsageError(
                f"the policy's function chose {quoted(device)}, which is none of the devices it was"
                " given"
            )
    return [device.ep_device for device in chosen]


def _metadata(model: Model) -> dict[str, str]:
    attributes = {
        "producer_name": model.producer_name,
        "graph_name": model.graph.name,
        "domain": model.domain,
        "description": model.doc_string,
    }
    return {**attributes, **model.metadata_props}
