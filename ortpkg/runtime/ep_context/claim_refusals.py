"""Libraries' refusals of sub-graphs, stored beside contexts so that libraries are not asked again.

A provider that only learns by compiling what its library takes would otherwise compile at each
start what failed before. The key is that of the context that would have been made: another release,
device, option or model is asked again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import ModelFileError
from ortpkg.foundations.storage.file_replacement import replace_file
from ortpkg.runtime.ep_context.ep_context_cache import context_key
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor

_log = logging.getLogger(__name__)

_SUFFIX = ".refusal"
_SCHEMA_VERSION = 1
_MOST_NBYTES = 1 << 20
_MOST_NODES = 10_000
#: Most refusals that are kept; the oldest are dropped.
_MOST_KEPT = 1000
#: Seconds after which the library is asked again: the reason of its failure may be gone.
_BELIEVED_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRefusal:
    """A library's refusal of nodes that it was to compile.

    Attributes:
        makes: first output of each refused node, which identifies the node in the graph.
        reasons: texts for people, in order.
        unknown: operators that it reported as unsupported.
        is_lasting: True if it would refuse them again; otherwise the refusal is not stored.
    """

    makes: tuple[str, ...]
    reasons: tuple[str, ...]
    unknown: frozenset[tuple[str, str]] = frozenset()
    is_lasting: bool = True


def read_refusal(directory: Path, descriptor: ContextDescriptor) -> ClaimRefusal | None:
    """Return the refusal for exactly this descriptor; None if there is no valid one."""
    path = _path(directory, descriptor)
    try:
        with path.open("rb") as file:
            if (
                abs(time.time() - os.fstat(file.fileno()).st_mtime) > _BELIEVED_S
            ):  # a time in the future: a clock was wrong
                return None
            return _refusal_from(json.loads(file.read(_MOST_NBYTES)), descriptor)
    except (OSError, ValueError, RecursionError):
        return None


def write_refusal(directory: Path, descriptor: ContextDescriptor, refusal: ClaimRefusal) -> None:
    """Store a refusal if the disk allows it."""
    if len(refusal.makes) > _MOST_NODES:
        return
    document = {
        "schema_version": _SCHEMA_VERSION,
        "descriptor": descriptor.to_json(),
        "nodes": list(refusal.makes),
        "reasons": list(refusal.reasons),
        "unknown": sorted(map(list, refusal.unknown)),
    }
    text = json.dumps(document, sort_keys=True).encode()
    if len(text) > _MOST_NBYTES:
        return
    try:
        replace_file(_path(directory, descriptor), lambda file: file.write(text))
    except (OSError, ModelFileError) as error:
        _log.info("a refusal of %s cannot be kept: %s", descriptor.ep, error)
        return
    _prune(directory)


def _prune(directory: Path) -> None:
    with contextlib.suppress(OSError):
        paths = list(directory.glob(f"*{_SUFFIX}"))
        if len(paths) > _MOST_KEPT:
            paths.sort(key=lambda path: path.stat().st_mtime_ns)
            for path in paths[:-_MOST_KEPT]:
                path.unlink(missing_ok=True)


def kept_refusals(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield files of refusals with the name of their EP; "" for an invalid file."""
    try:
        paths = sorted(directory.glob(f"*{_SUFFIX}"))
    except OSError:
        return
    for path in paths:
        ep: object = ""
        with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
            ep = json.loads(path.read_bytes()[:_MOST_NBYTES]).get("descriptor", {}).get("ep", "")
        yield path, ep if isinstance(ep, str) else ""


def _refusal_from(document: Any, descriptor: ContextDescriptor) -> ClaimRefusal | None:
    if not isinstance(document, dict) or document.get("schema_version") != _SCHEMA_VERSION:
        return None
    if document.get("descriptor") != descriptor.to_json():
        return None
    names, reasons = _texts(document.get("nodes")), _texts(document.get("reasons"))
    unknown = document.get("unknown")
    pairs = [_texts(pair) for pair in unknown] if isinstance(unknown, list) else []
    if not names or not reasons or any(len(pair) != 2 for pair in pairs):
        return None
    return ClaimRefusal(
        makes=names,
        reasons=reasons,
        unknown=frozenset((domain, operator) for domain, operator in pairs),
    )


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts of a list; nothing if it is something else."""
    is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return tuple(value) if is_list else ()  # type: ignore[arg-type]


def _path(directory: Path, descriptor: ContextDescriptor) -> Path:
    return directory / f"{context_key(descriptor)}{_SUFFIX}"
