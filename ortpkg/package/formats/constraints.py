"""What is doubtful in a variant's constraints, whatever generation states them."""

from __future__ import annotations

from dataclasses import replace

from ortpkg.documents.findings import FindingCollector, finding
from ortpkg.ep_names import OWN_EPS, suggest_ep_name
from ortpkg.errors import quoted
from ortpkg.package.package_info import Source
from ortpkg.package.rules import UNKNOWN_DEVICE, UNKNOWN_EP

DEVICES = frozenset({"cpu", "gpu", "npu"})
"""The device types that a constraint can match, in lower case."""


def warn_of_ep(ep: str, source: Source, found: FindingCollector) -> None:
    """Reports an EP whose name no release of ONNX Runtime has, unless it is our own."""
    if ep in OWN_EPS:
        return
    near = suggest_ep_name(ep)
    said = finding(
        UNKNOWN_EP,
        source.document,
        f"ep {quoted(ep)} is not an execution provider that ONNX Runtime knows",
        pointer=source.pointer,
        remedy=f"did you mean {near}?" if near else "",
    )
    # By the name, who knows what is installed tells findings about that from others.
    found.extend([replace(said, subject=ep)])


def warn_of_device(device: str, source: Source, found: FindingCollector) -> None:
    """Reports a device that is none of :data:`DEVICES`."""
    found.add(
        UNKNOWN_DEVICE,
        source.document,
        f"device {quoted(device)} never matches",
        pointer=source.pointer,
    )
