"""Which EP devices a session takes where a policy, or the caller's function, chooses for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ortpkg.devices.hardware import EpDevice
from ortpkg.errors import UsageError, quoted
from ortpkg.graph.model import Model
from ortpkg.selection.policies import POLICIES, device_kind
from ortpkg.session.onnxruntime_enums import OrtExecutionProviderDevicePolicy
from ortpkg.session.ort_ep_device import OrtEpDevice, offered_ep_devices

#: Called with all devices, what the model says of itself, what the runtime says (nothing), and how
#: many to choose.
PolicyDelegate = Callable[
    [Sequence[OrtEpDevice], Mapping[str, str], Mapping[str, str], int], Sequence[OrtEpDevice]
]
DevicePolicy = OrtExecutionProviderDevicePolicy | PolicyDelegate

_MOST_CHOSEN = 8


def devices_of_policy(policy: DevicePolicy, model: Model) -> list[EpDevice]:
    """The devices to use, in order; the CPU provider of the engine joins the session besides.

    A policy gives one: the first of the kind that it prefers most of those that are there. DEFAULT
    prefers the CPU, as in onnxruntime.

    Raises UsageError where a function chooses none, too many, or what it was not offered.
    """
    offered = offered_ep_devices()
    if isinstance(policy, OrtExecutionProviderDevicePolicy):
        name = policy.name.lower().replace("_", "-")
        order = POLICIES[
            "prefer-cpu" if policy is OrtExecutionProviderDevicePolicy.DEFAULT else name
        ]
        return [
            min(
                (each.ep_device for each in offered),
                key=lambda each: order.preference(device_kind(each)),
            )
        ]
    chosen = list(policy(tuple(offered), _metadata(model), {}, _MOST_CHOSEN))
    if not 0 < len(chosen) <= _MOST_CHOSEN:
        raise UsageError(
            f"the policy's function chose {len(chosen)} devices; 1 to {_MOST_CHOSEN} were expected"
        )
    for each in chosen:
        if each not in offered:
            raise UsageError(
                f"the policy's function chose {quoted(each)}, which is none of the devices it was"
                " given"
            )
    return [each.ep_device for each in chosen]


def _metadata(model: Model) -> dict[str, str]:
    said = {
        "producer_name": model.producer_name,
        "graph_name": model.graph.name,
        "domain": model.domain,
        "description": model.doc_string,
    }
    return {**said, **model.metadata_props}
