"""What authoring learns of a model file: its signature, the EPs that compiled it, facts to keep.

Nothing is run, and weights and compiled contexts are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.ep_names import ep_of_context_source, is_known_ep, resolve_ep_name, suggest_ep_name
from ortpkg.errors import quoted
from ortpkg.graph.model_file import read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.model_signature import MICROSOFT_DOMAIN, ModelSignature, signature_of
from ortpkg.graph.proto_walk import walk_nodes
from ortpkg.package.package_info import Constraints
from ortpkg.providers.ep_registry import is_ep_here

COMPATIBILITY_PREFIX = "ep_compatibility_info."
"""Metadata key of a compiled model: this, and the name of the EP that compiled it (OrtEp)."""

_DEFAULT_LIMITS = ModelLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One ONNX file's account of itself.

    Attributes:
        signature: inputs, outputs, types, needed files.
        context_sources: ``source`` of its EPContext nodes, each once, in order; empty for a model
            that is not compiled.
        has_contexts: whether it has EPContext nodes, with a source or without.
        hardware_architectures: likewise of ``hardware_architecture``.
    """

    signature: ModelSignature
    context_sources: tuple[str, ...] = ()
    has_contexts: bool = False
    hardware_architectures: tuple[str, ...] = ()


def read_model_facts(path: Path) -> ModelFacts:
    """Reads a model file.

    ModelError where it is missing, not ONNX, or names a file outside its folder.
    """
    proto = read_model_file(path, limits=_DEFAULT_LIMITS).proto
    signature = signature_of(proto)
    sources: dict[str, None] = {}
    architectures: dict[str, None] = {}
    for node in walk_nodes(proto, limits=_DEFAULT_LIMITS) if signature.has_contexts else ():
        if node.op_type == "EPContext" and node.domain == MICROSOFT_DOMAIN:
            texts = {
                attribute.name: attribute.s.decode("utf-8", "replace")
                for attribute in node.attribute
            }
            sources[texts.get("source", "")] = None
            architectures[texts.get("hardware_architecture", "")] = None
    return ModelFacts(
        signature=signature,
        context_sources=tuple(filter(None, sources)),
        has_contexts=bool(sources),
        hardware_architectures=tuple(filter(None, architectures)),
    )


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

    QNN's, for example, is "QNN".
    """
    return tuple(dict.fromkeys(ep for ep in map(ep_of_context_source, sources) if is_known_ep(ep)))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, names))
