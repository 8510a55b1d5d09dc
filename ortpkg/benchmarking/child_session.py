"""In a child process: a session from what the parent wrote down, and whether the EP in question really runs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ortpkg.benchmarking.candidate import ep_device_from_json, is_embedded
from ortpkg.ep_names import CPU_EP
from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import SessionOptions


def create_session(arguments: Mapping[str, Any]) -> InferenceSession:
    """The session of :meth:`Candidate.session_arguments`."""
    options = SessionOptions()
    for key, value in arguments["session_entries"].items():
        options.add_session_config_entry(key, value)
    ep_device = ep_device_from_json(arguments["ep_device"])
    return InferenceSession(arguments["model"], options, ep_devices=[(ep_device, arguments["provider_options"])])


def ran_instead(session: InferenceSession, described: Mapping[str, Any]) -> str:
    """What runs the model where the EP took no node of it; "" where it took some, or nothing is left to take.

    A session lets nodes that an EP does not claim fall to the embedded engine. Measured as the EP's own, that would be
    a lie.
    """
    ep_device = ep_device_from_json(described)
    partitions = session.get_partitions()
    if not partitions or is_embedded(ep_device):
        return ""
    # A backend that provides the CPU's EP has the embedded one's name, but it takes whole models, fused.
    took = (
        part.provider == ep_device.ep_name and (bool(part.fused_node) or ep_device.ep_name != CPU_EP)
        for part in partitions
    )
    if any(took):
        return ""
    counts = Counter({part.provider: 0 for part in partitions})
    for part in partitions:
        counts[part.provider] += len(part.node_names)
    return ", ".join(f"{provider} ({count} nodes)" for provider, count in counts.items())
