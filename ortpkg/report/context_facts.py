"""Facts of a package's compiled contexts: what they were made for, and if they fit this machine.

No backend's library is loaded. The rating of the EP's factory, what the machine's probe knows of EP
and driver, and what the node recorded when it was made are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ortpkg.foundations.ep_names import OWN_EPS, ep_of_context_source, removed_ep_text
from ortpkg.foundations.errors import OrtpkgError, TrustRequiredError, quoted
from ortpkg.foundations.storage.context_file_mark import MAGIC, is_context_file
from ortpkg.foundations.versions import parse_version, release_of
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.operator_scan import scan_model_file
from ortpkg.machine.architecture import runs_code_for
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.package_info import PackageInfo, VariantInfo
from ortpkg.runtime.ep_context.context_node import (
    EpContextAttributes,
    ep_context_attributes,
    ep_context_nodes,
)
from ortpkg.runtime.ep_context.ep_context_descriptor import (
    ContextDescriptor,
    descriptor_from_json,
    find_mismatch,
)
from ortpkg.runtime.ep_context.ep_context_file import ContextFile, open_context_file
from ortpkg.runtime.ep_context.ep_context_options import EpContextOptions
from ortpkg.runtime.ep_context.ep_context_reader import EpContextReader
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.machine_offer import MachineOffer, this_machine
from ortpkg.selection.contexts.context_trust import check_model_file
from ortpkg.selection.matching.measurements import driver_version_of

#: Most variants whose models are read, and most contexts shown of one.
_MOST_VARIANTS, _MOST_CONTEXTS = 500, 100
_LIMITS = ModelLimits()
_MISSING = " (missing)"


class ContextState(StrEnum):
    """State of a context on this machine."""

    FRESH = "fresh"
    AGED = "compile anew"
    STALE = "stale"
    UNKNOWN = "unknown"
    BROKEN = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFact:
    """One EPContext node of a variant's model.

    Attributes:
        variant: Component model and variant.
        partition: Name by which its context is found.
        ep: Execution provider that made it.
        sdk_version, driver_version, architecture: Of what made it; "" if it does not say.
        location: File of the context, or words that it is in the model.
        state: State on this machine.
        reason: Reason of the state; for a stale one, the field that differs.
        trust: Words that say if it may run here.
        needs_trust: True if it runs only with ``--trust``.
    """

    variant: str
    partition: str
    ep: str
    sdk_version: str
    driver_version: str
    architecture: str
    location: str
    state: ContextState
    reason: str
    trust: str
    needs_trust: bool = False


def context_facts(package: PackageInfo, *, trust: bool) -> tuple[ContextFact, ...]:
    """Return the contexts of each variant whose files are here.

    Unreadable ones get a state, no error.
    """
    compiled = [
        variant
        for component in package.components
        for variant in component.variants[:_MOST_VARIANTS]
        if not variant.is_absent and _has_contexts(variant)
    ]
    if not compiled:
        return ()
    named = {
        compiled_variant.constraints.ep
        for compiled_variant in compiled
        if compiled_variant.constraints.ep
    }
    offer = this_machine(named=named)
    return tuple(
        fact
        for variant in compiled
        for fact in _variant_facts(variant, package, offer, trust=trust)
    )


def _has_contexts(variant: VariantInfo) -> bool:
    if variant.model_path is None:
        return False
    needs = scan_model_file(variant.model_path, limits=_LIMITS)
    return needs is not None and bool(needs.context_sources)


def _variant_facts(
    variant: VariantInfo, package: PackageInfo, offer: MachineOffer, *, trust: bool
) -> Iterator[ContextFact]:
    label = f"{variant.component_name}, {variant.name}"
    assert variant.model_path is not None
    try:
        nodes = list(ep_context_nodes(load_model(variant.model_path).graph))
        contexts = [ep_context_attributes(node) for node in nodes[:_MOST_CONTEXTS]]
    except (OrtpkgError, OSError) as error:
        yield _broken(label, str(error))
        return
    trust_text, needs_trust = _trust(variant, package, trust=trust)
    for attributes in contexts:
        ep = ep_of_context_source(attributes.source) or variant.constraints.ep or ""
        try:
            location = _place(attributes, variant.model_path)
            made = _descriptor(attributes, variant.model_path, ep)
            state, reason = _state(variant, ep, made, offer)
        except (OrtpkgError, OSError) as error:
            yield _broken(label, str(error), ep=ep, partition=attributes.partition_name)
            continue
        if location.endswith(_MISSING):
            state, reason = ContextState.BROKEN, "its file is not there"
        yield ContextFact(
            variant=label,
            partition=attributes.partition_name,
            ep=ep,
            sdk_version=made.sdk_version,
            driver_version=made.driver_version,
            architecture=made.architecture,
            location=location,
            state=state,
            reason=reason,
            trust=trust_text,
            needs_trust=needs_trust,
        )


def _broken(label: str, reason: str, *, ep: str = "", partition: str = "") -> ContextFact:
    return ContextFact(
        variant=label,
        partition=partition,
        ep=ep,
        sdk_version="",
        driver_version="",
        architecture="",
        location="",
        state=ContextState.BROKEN,
        reason=reason,
        trust="",
    )


def _descriptor(attributes: EpContextAttributes, model: Path, ep: str) -> ContextDescriptor:
    """Return the description in the context itself if it has ortpkg's format, else the node's.

    Raises:
        EpContextError: The context is damaged, or lies outside the model's folder.
    """
    contexts = _own_contexts(attributes, model, ep)
    if contexts is not None and attributes.partition_name in contexts.names:
        return contexts.descriptor(attributes.partition_name)
    try:
        noted = descriptor_from_json(json.loads(attributes.notes))
    except (ValueError, RecursionError):
        noted = ContextDescriptor(ep="", sdk_version="", device="")
    return replace(
        noted,
        ep=noted.ep or attributes.source,
        sdk_version=noted.sdk_version or attributes.ep_sdk_version,
        architecture=noted.architecture or attributes.hardware_architecture,
    )


def _own_contexts(attributes: EpContextAttributes, model: Path, ep: str) -> ContextFile | None:
    """Open the container of the node's context; only its index is read."""
    if attributes.embed_mode:
        data = memoryview(attributes.ep_cache_context)
        if bytes(data[: len(MAGIC)]) != MAGIC:
            return None
        return ContextFile(data, ep_name=ep, where="the context in the model")
    if not attributes.ep_cache_context:
        return None
    path = _path_of(attributes, model)
    return open_context_file(path, ep_name=ep) if is_context_file(path) else None


def _path_of(attributes: EpContextAttributes, model: Path) -> Path:
    """Return the context's file.

    Raises:
        EpContextError: It would lie outside the model's folder.
    """
    options = EpContextOptions(model_path=model)
    return EpContextReader(attributes.source, options, ()).path_of(attributes)


def _place(attributes: EpContextAttributes, model: Path) -> str:
    """Return where the context lies, in words."""
    if attributes.embed_mode:
        return "in the model"
    if not attributes.ep_cache_context:
        return "in another node's file"
    is_there = _path_of(attributes, model).is_file()
    return attributes.context_path if is_there else f"{attributes.context_path}{_MISSING}"


def _trust(variant: VariantInfo, package: PackageInfo, *, trust: bool) -> tuple[str, bool]:
    """Return words on whether native code may load the contexts, and True if that needs --trust."""
    if trust:
        return "trusted by --trust", False
    try:
        check_model_file(variant, package, trust=False)
    except TrustRequiredError:
        return "needs --trust: not compiled here, not by a trusted publisher", True
    except (OrtpkgError, OSError) as error:
        return str(error), True
    return "compiled here, or by a trusted publisher", False


def _state(
    variant: VariantInfo, ep: str, made: ContextDescriptor, offer: MachineOffer
) -> tuple[ContextState, str]:
    """Return if a context fits this machine, by the EP's own rating first."""
    if removed := removed_ep_text(ep):
        return ContextState.BROKEN, removed
    device = _ep_device(variant, ep, offer)
    if device is None:
        return ContextState.UNKNOWN, f"{ep or 'its execution provider'} is not available here"
    info = variant.constraints.ep_compatibility_info
    rating = offer.compatibility(device, info) if info else CompiledModelCompatibility.UNKNOWN
    if ep in OWN_EPS:
        mismatch = _own_mismatch(device, made, offer)
        if mismatch:  # a session would report this
            return ContextState.STALE, mismatch
    else:
        field_mismatch = find_mismatch(made, _with_known_versions(made, device))
        mismatch = "" if field_mismatch is None else str(field_mismatch)
    if rating is CompiledModelCompatibility.OPTIMAL:
        though = f", though its {mismatch}" if mismatch else ""
        return ContextState.FRESH, f"the EP rates it as fitting{though}"
    if rating is CompiledModelCompatibility.PREFER_RECOMPILATION:
        return ContextState.AGED, mismatch or "it runs; the EP would rather have it compiled anew"
    if rating is CompiledModelCompatibility.UNSUPPORTED or mismatch:
        return (
            ContextState.STALE,
            mismatch or f"the EP refuses its compatibility string {quoted(info or '')}",
        )
    return ContextState.FRESH, "as far as this machine's versions are known"


def _ep_device(variant: VariantInfo, ep: str, offer: MachineOffer) -> EpDevice | None:
    """Return the EP's device that the variant needs, or None."""
    wanted = variant.constraints.device
    return next(
        (
            ep_device
            for ep_device in offer.ep_devices
            if ep_device.ep_name == ep
            and (
                wanted is None or ep_device.device is None or ep_device.device.type.value == wanted
            )
        ),
        None,
    )


def _own_mismatch(device: EpDevice, made: ContextDescriptor, offer: MachineOffer) -> str:
    """Return the mismatch that an EP of ortpkg's own reports; "" for none."""
    factory = next(
        factory_here for factory_here in offer.factories if factory_here.ep_name == device.ep_name
    )
    provider = factory.create([device], {})
    try:
        assert isinstance(provider, CompilingProvider)
        mismatch = provider.find_mismatch(made, provider.describe_environment())
    finally:
        provider.close()
    return "" if mismatch is None else str(mismatch)


def _with_known_versions(made: ContextDescriptor, device: EpDevice) -> ContextDescriptor:
    """Return ``made`` with this machine's versions, as far as both are known."""
    here = made
    version = release_of(device.ep_version)
    if version and release_of(made.sdk_version):
        is_same = parse_version(release_of(made.sdk_version)) == parse_version(version)
        here = here if is_same else replace(here, sdk_version=device.ep_version)
    if made.driver_version and (driver := driver_version_of(device)):
        here = replace(here, driver_version=driver)
    architecture = "" if device.device is None else device.device.architecture or ""
    if (
        made.architecture
        and architecture
        and runs_code_for(architecture, made.architecture) is False
    ):
        here = replace(here, architecture=architecture)
    return here
