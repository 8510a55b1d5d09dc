"""Read facts of a model file: its signature, the EPs that compiled it, the weights it needs.

Nothing is run, and weights are not read. Of compiled contexts only the names of the files with
their weights are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx

from ortpkg.foundations.ep_names import (
    OWN_EPS,
    ep_of_context_source,
    removed_ep_text,
    resolve_ep_name,
    suggest_ep_name,
)
from ortpkg.foundations.errors import EpContextError, ModelError, quoted
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.external_data import check_location
from ortpkg.graph.model_file import read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.model_signature import MICROSOFT_DOMAIN, ModelSignature, signature_of
from ortpkg.graph.proto_walk import walk_nodes
from ortpkg.package.package_info import Constraints
from ortpkg.runtime.providers.ep_registry import is_ep_here
from ortpkg.runtime.providers.foreign_contexts import FOREIGN_FORMS

COMPATIBILITY_PREFIX = "ep_compatibility_info."
"""Prefix of a compiled model's metadata key; the name of the EP (OrtEp) follows."""

WEIGHTLESS_MODE = "weightless_mode"
"""Metadata key of a compiled model: the source of the weights that its contexts leave out."""

_DEFAULT_LIMITS = ModelLimits()


class WeightlessMode(StrEnum):
    """Weights that a compiled model takes from its source model at run time.

    NONE: none. EXTERNAL_ONLY: those in its data files. ALL: those, and those in its ONNX file.
    """

    NONE = "0"
    EXTERNAL_ONLY = "1"
    ALL = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Facts that one ONNX file states about itself.

    Attributes:
        signature: inputs, outputs, types, needed files.
        context_sources: ``source`` of its EPContext nodes, each once, in order; empty for a model
            that is not compiled.
        has_contexts: True if it has EPContext nodes, with a source or without.
        hardware_architectures: ``hardware_architecture`` of its EPContext nodes, each once, in
            order.
        weightless_mode: the weights that its contexts take from the source model.
        context_weights: files from which containers of contexts take weights, as locations like
            those of external data (unchecked) → the least size that serves.
    """

    signature: ModelSignature
    context_sources: tuple[str, ...] = ()
    has_contexts: bool = False
    hardware_architectures: tuple[str, ...] = ()
    weightless_mode: WeightlessMode = WeightlessMode.NONE
    context_weights: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


def read_model_facts(path: Path) -> ModelFacts:
    """Read the facts of a model file.

    Raises:
        ModelError: it is missing, not ONNX, or names a file outside its folder.
    """
    proto = read_model_file(path, limits=_DEFAULT_LIMITS).proto
    signature = signature_of(proto)
    if not signature.has_contexts:
        return ModelFacts(signature=signature)
    contexts = [
        {attribute.name: attribute for attribute in node.attribute}
        for node in walk_nodes(proto, limits=_DEFAULT_LIMITS)
        if node.op_type == "EPContext" and node.domain == MICROSOFT_DOMAIN
    ]
    stated_mode = signature.metadata_props.get(WEIGHTLESS_MODE, "")
    return ModelFacts(
        signature=signature,
        context_sources=_texts(contexts, "source"),
        has_contexts=True,
        hardware_architectures=_texts(contexts, "hardware_architecture"),
        # An unknown value, of a later release, counts as none (onnxruntime's design document).
        weightless_mode=(
            WeightlessMode(stated_mode)
            if stated_mode in {mode.value for mode in WeightlessMode}
            else WeightlessMode.NONE
        ),
        context_weights=_context_weights(path.parent, contexts, signature.context_files),
    )


_Attributes = Mapping[str, onnx.AttributeProto]


def _texts(contexts: Iterable[_Attributes], name: str) -> tuple[str, ...]:
    """Return the distinct texts of an attribute, in order."""
    texts = (
        attributes[name].s.decode("utf-8", "replace")
        for attributes in contexts
        if name in attributes
    )
    return tuple(dict.fromkeys(filter(None, texts)))


def _context_weights(
    folder: Path, contexts: Iterable[_Attributes], files: Iterable[str]
) -> dict[str, int]:
    """Return the files from which containers take weights, in the model and beside it.

    A damaged or missing container names none here; its check and its session report it.
    """
    weights: dict[str, int] = {}
    for payload in (*_embedded_payloads(contexts), *_mapped_files(folder, files)):
        for form in FOREIGN_FORMS:
            if form.is_of(payload):
                with suppress(EpContextError):
                    for location, nbytes in form.weight_files(payload, "the context").items():
                        weights[location] = max(nbytes, weights.get(location, 0))
    return weights


def _embedded_payloads(contexts: Iterable[_Attributes]) -> Iterator[memoryview]:
    for attributes in contexts:
        embedded, context = attributes.get("embed_mode"), attributes.get("ep_cache_context")
        if context is not None and (embedded is None or embedded.i):
            yield memoryview(context.s)


def _mapped_files(folder: Path, locations: Iterable[str]) -> Iterator[memoryview]:
    for location in locations:
        with suppress(ModelError):
            check_location(location, "the context")
            yield memoryview(MappedFile(folder / location).mapping())


def complete_constraints(
    constraints: Constraints, facts: ModelFacts | None, notify: Callable[[str], None]
) -> Constraints:
    """Complete ``constraints`` from the model's own metadata.

    The EP is the one whose ``ep_compatibility_info.<EP>`` the model carries, or else the one that
    its EPContext nodes name, if it is exactly one; compatibility info and architecture come from
    the same places. Contradictions and unknown names are reported to ``notify``; neither is an
    error, since plug-ins bring names of their own. A name that the EP itself left in the model does
    not count as unknown.
    """
    ep = resolve_ep_name(constraints.ep) if constraints.ep else None
    is_named_by_model = False
    if facts is not None:
        compatibility = _compatibility_by_ep(facts.signature.metadata_props)
        makers = tuple(compatibility) or _eps_of_sources(facts.context_sources)
        if ep is None and len(makers) == 1:
            ep = makers[0]
        elif ep is None and makers:
            notify(
                f"the model was compiled by several execution providers ({_listed(makers)}): state"
                " the ep"
            )
        elif ep is not None and makers and ep not in makers:
            notify(
                f"ep is {quoted(ep)}, but the model says that it was compiled by {_listed(makers)}"
            )
        is_named_by_model = ep in makers
        if constraints.ep_compatibility_info is None and ep in compatibility:
            constraints = constraints._replace(ep_compatibility_info=compatibility[ep])
        if constraints.architecture is None and len(facts.hardware_architectures) == 1:
            constraints = constraints._replace(architecture=facts.hardware_architectures[0])
    sources = () if facts is None else facts.context_sources
    removed = next(filter(None, map(removed_ep_text, (ep or "", *sources))), None)
    if removed is not None:
        notify(removed)
    elif ep is not None and not (is_ep_here(ep) or is_named_by_model):
        near = suggest_ep_name(ep)
        hint = f" (did you mean {quoted(near)}?)" if near else ""
        notify(
            f"{quoted(ep)} is not an execution provider that ONNX Runtime knows{hint}; kept as it"
            " is"
        )
    return constraints._replace(ep=ep)


def variant_metadata(facts: ModelFacts | None, nbytes: int) -> dict[str, Any]:
    """Return the facts that metadata.json keeps of a variant: types, opset, nodes, size, ...

    A set of files without one model (GenAI) has its size only.
    """
    if facts is None:
        return {"nbytes": nbytes}
    signature = facts.signature
    return {
        "data_types": list(signature.element_types),
        "quantization": None if signature.quantization == "none" else signature.quantization,
        "opset": signature.opset_imports.get(""),
        "nodes": signature.node_count,
        "nbytes": nbytes,
    }


def _compatibility_by_ep(metadata_props: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(COMPATIBILITY_PREFIX): value
        for key, value in metadata_props.items()
        if key.startswith(COMPATIBILITY_PREFIX) and len(key) > len(COMPATIBILITY_PREFIX)
    }


def _eps_of_sources(sources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the EPs of context sources; a source is an EP's own key, such as "QNN".

    Known are the EPs of ONNX Runtime, and those installed on this machine.
    """
    makers = dict.fromkeys(map(ep_of_context_source, sources))
    return tuple(ep for ep in makers if ep not in OWN_EPS and is_ep_here(ep))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, names))
