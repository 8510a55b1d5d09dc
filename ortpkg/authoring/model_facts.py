"""Reads facts of a model file: its signature, the EPs that compiled it, the weights it needs.

Nothing is run, and weights are not read. From compiled contexts only the names of files are read
from which they take weights.
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

from ortpkg.ep_names import OWN_EPS, ep_of_context_source, resolve_ep_name, suggest_ep_name
from ortpkg.errors import EpContextError, ModelError, quoted
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.external_data import check_location
from ortpkg.graph.model_file import read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.model_signature import MICROSOFT_DOMAIN, ModelSignature, signature_of
from ortpkg.graph.proto_walk import walk_nodes
from ortpkg.package.package_info import Constraints
from ortpkg.providers.ep_registry import is_ep_here
from ortpkg.providers.foreign_contexts import FOREIGN_FORMS

COMPATIBILITY_PREFIX = "ep_compatibility_info."
"""Metadata key of a compiled model: this, and the name of the EP that compiled it (OrtEp)."""

WEIGHTLESS_MODE = "weightless_mode"
"""Metadata key of a compiled model: from where its contexts take weights that they leave out."""

_DEFAULT_LIMITS = ModelLimits()


class WeightlessMode(StrEnum):
    """Weights that a compiled model takes from the model that was compiled, at run time.

    NONE: none. EXTERNAL_ONLY: those in its data files. ALL: those, and those in its ONNX file.
    """

    NONE = "0"
    EXTERNAL_ONLY = "1"
    ALL = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One ONNX file's account of itself.

    Attributes:
        signature: inputs, outputs, types, needed files.
        context_sources: ``source`` of its EPContext nodes, each once, in order; empty for a model
            that is not compiled.
        has_contexts: whether it has EPContext nodes, with a source or without.
        hardware_architectures: likewise of ``hardware_architecture``.
        weightless_mode: what the contexts take from the model that was compiled.
        context_weights: files from which containers of contexts take weights, as locations like
            those of external data, which are not checked, to the least size that serves.
    """

    signature: ModelSignature
    context_sources: tuple[str, ...] = ()
    has_contexts: bool = False
    hardware_architectures: tuple[str, ...] = ()
    weightless_mode: WeightlessMode = WeightlessMode.NONE
    context_weights: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


def read_model_facts(path: Path) -> ModelFacts:
    """Read what a model file says of itself.

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
        # A value that is not known, of a later release, says nothing, as the design has it.
        weightless_mode=(
            WeightlessMode(stated_mode)
            if stated_mode in {mode.value for mode in WeightlessMode}
            else WeightlessMode.NONE
        ),
        context_weights=_context_weights(path.parent, contexts, signature.context_files),
    )


_Attributes = Mapping[str, onnx.AttributeProto]


def _texts(contexts: Iterable[_Attributes], name: str) -> tuple[str, ...]:
    """Return the different texts of an attribute, in order."""
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

    A container that is damaged or missing names none here: its check says so, and its session.
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
    given: Constraints, facts: ModelFacts | None, notify: Callable[[str], None]
) -> Constraints:
    """``given``, with what it leaves open filled from the model's own metadata.

    The EP is the one whose ``ep_compatibility_info.<EP>`` the model carries, or else the one that
    its EPContext nodes name, where exactly one does; compatibility info and architecture come from
    the same places. ``notify`` is told of contradictions and unknown names; neither is an error,
    since plug-ins bring names of their own. A name that the EP itself left in the model is no
    unknown one.
    """
    ep = resolve_ep_name(given.ep) if given.ep else None
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
        if given.ep_compatibility_info is None and ep in compatibility:
            given = given._replace(ep_compatibility_info=compatibility[ep])
        if given.architecture is None and len(facts.hardware_architectures) == 1:
            given = given._replace(architecture=facts.hardware_architectures[0])
    if ep is not None and not (is_ep_here(ep) or is_named_by_model):
        near = suggest_ep_name(ep)
        hint = f" (did you mean {quoted(near)}?)" if near else ""
        notify(
            f"{quoted(ep)} is not an execution provider that ONNX Runtime knows{hint}; kept as"
            " it is"
        )
    return given._replace(ep=ep)


def variant_metadata(facts: ModelFacts | None, nbytes: int) -> dict[str, Any]:
    """The facts that metadata.json keeps of a variant: types, quantization, opset, nodes, size.

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
    """The EPs that sources name: a source is the EP's own key, of which known names say something.

    QNN's, for example, is "QNN". Known are those of ONNX Runtime, and what is installed here.
    """
    makers = dict.fromkeys(map(ep_of_context_source, sources))
    return tuple(ep for ep in makers if ep not in OWN_EPS and is_ep_here(ep))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, names))
