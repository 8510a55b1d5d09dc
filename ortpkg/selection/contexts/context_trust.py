"""Decision which native compiled contexts a session may load.

A native context is code for an accelerator's driver and library. Its author can make these do
anything, and a digest that he ships proves nothing. So contexts of a package are refused unless the
package is trusted or they were compiled here: ``ortpkg compile`` records the SHA-256 of what it
makes in the state directory. A package is trusted by ``--trust``, or if the user's trust policy
lets its publisher, who signed it, ship contexts (``publisher_trust``).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from ortpkg.foundations.errors import TrustRequiredError, quoted
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.onnx_reader import load_model
from ortpkg.package.derived_variants import plain_variant_hint
from ortpkg.package.package_info import PackageInfo, VariantInfo
from ortpkg.package.trust.made_contexts import is_made_here, made_contexts_folder
from ortpkg.runtime.ep_context.context_node import (
    EpContextAttributes,
    ep_context_attributes,
    ep_context_nodes,
    verify_maker_exists,
)
from ortpkg.runtime.ep_context.judged_contexts import JudgedContexts, contexts_to_judge
from ortpkg.runtime.ep_context.mapped_context import MappedContext

_CHUNK_NBYTES = 1 << 20
_TRACE = b"EPContext"

#: Checks the EPContext nodes of a model before any execution provider sees them. Returns the files
#: that it checked, by path: the session loads these, as they were opened, and no others. Returns
#: None if there was nothing to check.
ContextGate = Callable[[Sequence[EpContextAttributes]], Mapping[Path, MappedContext] | None]


def context_gate(variant: VariantInfo, package: PackageInfo, *, trust: bool) -> ContextGate | None:
    """Return the check of a variant's contexts, or None if all are allowed.

    The check raises TrustRequiredError for a native context that was neither compiled on this
    machine nor signed by a publisher whom the trust policy allows to ship contexts, and
    EpContextError for a context whose path leaves the model's folder.
    """
    if trust or variant.model_path is None:
        return None
    return partial(_judge, model=variant.model_path, label=_label(variant), package=package)


def check_model_file(
    variant: VariantInfo, package: PackageInfo, *, trust: bool
) -> tuple[str, ...] | None:
    """Check the contexts in a variant's model without a session.

    Returns:
        SHA-256 of the contexts that may be loaded, for another process that loads them
        (:func:`~ortpkg.runtime.ep_context.judged_contexts.load_only`); None if all are allowed.

    Raises:
        OrtpkgError: See :func:`context_gate`.
    """
    if trust or variant.model_path is None:
        return None
    if not _has_trace(variant.model_path):
        return ()
    judged = _judged(_contexts_of(variant.model_path), variant.model_path, _label(variant), package)
    return () if judged is None else judged.digests


def check_source_model(model: Path) -> tuple[str, ...]:
    """Check the contexts in a model that is to be compiled, like :func:`context_gate`.

    Returns:
        SHA-256 of those that may be loaded; see :func:`check_model_file`.
    """
    if not _has_trace(model):
        return ()
    contexts = _judged(_contexts_of(model), model, f"model {quoted(model.name)}", None)
    return () if contexts is None else contexts.digests


def remember_contexts(models: Iterable[Path]) -> None:
    """Record that the contexts of these context models were made on this machine.

    Call it only for what was compiled here just now from plain nodes.

    Raises:
        OSError: The record cannot be written.
    """
    folder = made_contexts_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        judged = JudgedContexts(model)
        for context in contexts_to_judge(_contexts_of(model)):
            note = {
                "schema_version": 1,
                "source": context.source,
                "partition_name": context.partition_name,
            }
            (folder / judged.digest_of(context)).write_text(json.dumps(note), encoding="utf-8")


def context_digests(model: Path) -> tuple[str, ...]:
    """Return the SHA-256 of each native context that a model names or holds, once, in order."""
    judged = JudgedContexts(model)
    contexts = contexts_to_judge(_contexts_of(model))
    return tuple(dict.fromkeys(judged.digest_of(context) for context in contexts))


def _label(variant: VariantInfo) -> str:
    return f"variant {quoted(variant.name)} of {quoted(variant.component_name)}"


def _judge(
    contexts: Sequence[EpContextAttributes],
    *,
    model: Path,
    label: str,
    package: PackageInfo | None = None,
) -> Mapping[Path, MappedContext] | None:
    judged = _judged(contexts, model, label, package)
    return None if judged is None else judged.files


def _judged(
    contexts: Sequence[EpContextAttributes], model: Path, label: str, package: PackageInfo | None
) -> JudgedContexts | None:
    native = contexts_to_judge(contexts)
    if not native:
        return None
    for context in native:
        verify_maker_exists(context)
    judged = JudgedContexts(model)
    others = [context for context in native if not _is_made_here(context, judged)]
    if others:
        _check_publisher_shipped(others, judged, model, label, package)
    return judged


def _check_publisher_shipped(
    contexts: Sequence[EpContextAttributes],
    judged: JudgedContexts,
    model: Path,
    label: str,
    package: PackageInfo | None,
) -> None:
    """Raise TrustRequiredError unless all are from a publisher whom the policy lets ship them."""
    if package is None:
        raise _needs_trust(label, contexts[0])
    from ortpkg.package.trust.publisher_trust import publisher_trust  # most contexts were made here

    publisher = publisher_trust(package)
    shipped = publisher.digests
    if publisher.digests and any(context.embed_mode for context in contexts):
        shipped |= _embedded_in_signed(model, publisher.digests)
    for context in contexts:
        if judged.digest_of(context) not in shipped:
            siblings = _variants_beside(model, package)
            raise _needs_trust(label, context, publisher.why_none, plain_variant_hint(siblings))


def _embedded_in_signed(model: Path, signed: Collection[str]) -> frozenset[str]:
    """Return the SHA-256 of the contexts in a model file if it has one of the ``signed`` digests.

    They are read from the same bytes that are hashed, because another file may be at that path a
    moment before or after.
    """
    with model.open("rb") as file:
        content = file.read(min(os.fstat(file.fileno()).st_size, ModelLimits().model_nbytes))
    if hashlib.sha256(content).hexdigest() not in signed:
        return frozenset()
    embedded = (context for context in _contexts_of(content, model.parent) if context.embed_mode)
    return frozenset(hashlib.sha256(context.ep_cache_context).hexdigest() for context in embedded)


def _contexts_of(model: Path | bytes, folder: Path | None = None) -> list[EpContextAttributes]:
    loaded = load_model(model, external_data_folder=folder)
    return [ep_context_attributes(node) for node in ep_context_nodes(loaded.graph)]


def _is_made_here(context: EpContextAttributes, judged: JudgedContexts) -> bool:
    return made_contexts_folder().is_dir() and is_made_here(judged.digest_of(context))


def _has_trace(model: Path) -> bool:
    tail = b""
    with model.open("rb") as file:
        while chunk := file.read(_CHUNK_NBYTES):
            if _TRACE in tail + chunk:
                return True
            tail = chunk[-len(_TRACE) :]
    return False


def _variants_beside(model: Path, package: PackageInfo) -> Iterator[VariantInfo]:
    """Yield the variants of the components that have a variant with this model."""
    for component in package.components:
        if any(variant.model_path == model for variant in component.variants):
            yield from component.variants


def _needs_trust(
    label: str, context: EpContextAttributes, why: str = "", hint: str = ""
) -> TrustRequiredError:
    what = "embedded in its model" if context.embed_mode else quoted(context.context_path)
    source = quoted(context.source or "an EP that it does not name")
    return TrustRequiredError(
        f"{label} has a context compiled for {source}, {what}, which native code of that EP would"
        " load and which was not compiled on this machine; if you trust its publisher, pass"
        f" --trust (in Python trust=True){hint and f', {hint}'}"
        f"{f' ({why})' if why else ''}",
        what=os.fspath(context.context_path) if not context.embed_mode else "ep_cache_context",
    )
