"""A child's session from what the parent wrote, and whether the EP in question really runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ortpkg.devices.json_form import ep_device_from_json
from ortpkg.measuring.bench_candidate import is_embedded
from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import SessionOptions
from ortpkg.trust.judged_contexts import load_only


def create_session(arguments: Mapping[str, Any]) -> InferenceSession:
    """The session of :meth:`BenchCandidate.session_arguments`."""
    options = SessionOptions()
    for key, value in arguments["session_entries"].items():
        options.add_session_config_entry(key, value)
    ep_device = ep_device_from_json(arguments["ep_device"])
    model, digests = arguments["model"], arguments["context_digests"]
    return InferenceSession(
        model,
        options,
        ep_devices=[(ep_device, arguments["provider_options"])],
        check_contexts=None
        if digests is None
        else partial(load_only, model=Path(model), digests=frozenset(digests)),
        is_confined=True,
        allow_fallback=True,  # describe_placement tells
    )


def describe_placement(session: InferenceSession, described: Mapping[str, Any]) -> tuple[str, str]:
    """What runs the model where the EP took no node of it, and what runs part of it beside the EP.

    Each is "" where nothing does.

    A session lets nodes that an EP does not claim fall to the embedded engine, and onnxruntime and
    OpenVINO let them fall to their CPU. Measured as the EP's own, the first would be a lie; the
    second is told.
    """
    ep_device = ep_device_from_json(described)
    if is_embedded(ep_device):
        return "", ""
    placement = session.get_placement()
    own = [
        entry
        for entry in placement.entries
        if (entry.ep_name, entry.backend) == (ep_device.ep_name, ep_device.backend)
        and not entry.is_fallback
    ]
    others = [entry for entry in placement.entries if entry.node_count and entry not in own]
    told = ", ".join(
        f"{entry.node_count} nodes on {entry.ep_name} ({entry.backend})" for entry in others
    )
    took = sum(entry.node_count for entry in own)
    return ("", told) if took or not others else (told, "")
