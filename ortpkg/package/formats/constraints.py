"""Warnings about doubtful constraints of a variant, in any generation."""

from __future__ import annotations

from dataclasses import replace

from ortpkg.foundations.documents.finding_collector import FindingCollector, finding
from ortpkg.foundations.ep_names import OWN_EPS, removed_ep_text, suggest_ep_name
from ortpkg.foundations.errors import quoted
from ortpkg.package.package_info import Source
from ortpkg.package.rules import UNKNOWN_DEVICE, UNKNOWN_EP

DEVICES = frozenset({"cpu", "gpu", "npu"})
"""Device types that a constraint can match, in lower case."""


def warn_of_ep(ep: str, source: Source, collector: FindingCollector) -> None:
    """Report an EP whose name no release of ONNX Runtime has, unless it is one of ours."""
    if ep in OWN_EPS:
        return
    removed = removed_ep_text(ep)
    near = None if removed else suggest_ep_name(ep)
    remedy = "remove the variant, or compile the plain one again" if removed else ""
    warning = finding(
        UNKNOWN_EP,
        source.document,
        removed or f"ep {quoted(ep)} is not an execution provider that ONNX Runtime knows",
        pointer=source.pointer,
        remedy=f"did you mean {near}?" if near else remedy,
    )
    # The subject lets a caller that knows the installed EPs drop findings about them.
    collector.extend([replace(warning, subject=ep)])


def warn_of_device(device: str, source: Source, collector: FindingCollector) -> None:
    """Report a device that is not one of :data:`DEVICES`."""
    collector.add(
        UNKNOWN_DEVICE,
        source.document,
        f"device {quoted(device)} never matches",
        pointer=source.pointer,
    )
