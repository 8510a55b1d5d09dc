"""Session of a child process from the parent's arguments, and a report of what really runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ortpkg.machine.json_form import ep_device_from_json
from ortpkg.runtime.ep_context.judged_contexts import load_only
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.selection.measuring.bench_candidate import is_embedded


def create_session(arguments: Mapping[str, Any]) -> InferenceSession:
    """Create the session for :meth:`BenchCandidate.session_arguments`."""
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
        allow_fallback=True,  # describe_placement reports it
    )


def describe_placement(session: InferenceSession, described: Mapping[str, Any]) -> tuple[str, str]:
    """Return what runs the model instead of the EP, and what runs a part of it beside the EP.

    Each is "" if there is nothing. A session gives nodes that an EP does not claim to the embedded
    engine, and onnxruntime and OpenVINO give them to their CPU. To report the first case as the
    EP's own time would be false; the second case is mentioned.
    """
    ep_device = ep_device_from_json(described)
    if is_embedded(ep_device):
        return "", ""
    placement = session.get_placement()
    own_entries = [
        entry
        for entry in placement.entries
        if (entry.ep_name, entry.backend) == (ep_device.ep_name, ep_device.backend)
        and not entry.is_fallback
    ]
    others = [entry for entry in placement.entries if entry.node_count and entry not in own_entries]
    elsewhere = ", ".join(
        f"{entry.node_count} nodes on {entry.ep_name} ({entry.backend})" for entry in others
    )
    own_count = sum(entry.node_count for entry in own_entries)
    return ("", elsewhere) if own_count or not others else (elsewhere, "")
