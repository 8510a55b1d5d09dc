"""Find compiled contexts in ortpkg's own container, which no EP of onnxruntime reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from ortpkg.foundations.errors import ModelError
from ortpkg.foundations.storage.context_file_mark import MAGIC
from ortpkg.graph.external_data import check_location
from ortpkg.graph.model_file import read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.model_signature import MICROSOFT_DOMAIN
from ortpkg.graph.proto_walk import walk_nodes

_LIMITS = ModelLimits()
WHY_NOT_READ = (
    "its contexts lie in ortpkg's own container, which no execution provider of onnxruntime reads: "
    "ortpkg compile --for onnxruntime makes one that OpenVINO's and QNN's do"
)


def has_own_contexts(model: Path) -> bool:
    """Return True if an EPContext node of the model leads to a container of ortpkg's.

    Return False for an unreadable file.
    """
    try:
        proto = read_model_file(model, limits=_LIMITS).proto
        return any(_is_own(payload, model.parent) for payload in _payloads(proto))
    except ModelError:
        return False


def _payloads(proto: onnx.ModelProto) -> Iterator[bytes | str]:
    """Yield the payload or the location of each context."""
    for node in walk_nodes(proto, limits=_LIMITS):
        if node.op_type != "EPContext" or node.domain != MICROSOFT_DOMAIN:
            continue
        attributes = {attribute.name: attribute for attribute in node.attribute}
        context, embedded = attributes.get("ep_cache_context"), attributes.get("embed_mode")
        if context is not None and context.s:
            is_embedded = embedded is None or bool(embedded.i)
            yield context.s if is_embedded else context.s.decode("utf-8", "replace")


def _is_own(payload: bytes | str, folder: Path) -> bool:
    if isinstance(payload, bytes):
        return payload.startswith(MAGIC)
    try:
        check_location(payload, "the context")
        path = folder / payload
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (ModelError, OSError, ValueError):
        return False
