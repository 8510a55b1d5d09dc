"""Variants compiled from other variants: the record of their source, and whether it still holds.

A derived variant names its source by digest in its metadata::

    "derived_from": {"variant": "cpu-fp32", "model": "<sha256>", "data": {"w.bin": "<sha256>"},
                     "made_by": {"command": "compile", "ep": "...", ...}, "contexts": ["<sha256>"]}

It is stale once its source is another model. Digests come from digests.json; files that changed
after it was written are hashed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import StalePackageError, quoted
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp
from ortpkg.package.formats.executor_info import data_folder_of
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.package.sidecar import DIGESTS_FILE, has_digests

DERIVED_FACT = "derived_from"
"""Key of a variant's metadata that records its source by digest, and how it was compiled."""

FOR_DEVICE = "for_device"
"""Key of ``made_by``: the device a variant was compiled for on a machine without that device."""

#: Possible digests of a file: none if unknown, several while a change is being committed.
DigestsOf = Callable[[Path], Collection[str]]


class Derivation(NamedTuple):
    """Record of how a variant was compiled.

    Attributes:
        variant: its source, a variant of the same component.
        model: SHA-256 of the source's model file.
        data: location of each of the source's data files → SHA-256.
        made_by: the command and those of its options that were set: ``command``, ``ep``,
            ``device``, ``backend``, ``options``, ``embedded``, ``reader``, ``shares_weights``,
            ``for_device``.
        contexts: SHA-256 of the compiled contexts.
    """

    variant: str
    model: str
    data: Mapping[str, str] = EMPTY
    made_by: Mapping[str, Any] = EMPTY
    contexts: tuple[str, ...] = ()

    def as_fact(self) -> dict[str, Any]:
        """Return the record in the form of the metadata, without empty entries."""
        record = {
            "variant": self.variant,
            "model": self.model,
            "data": dict(self.data),
            "made_by": dict(self.made_by),
            "contexts": list(self.contexts),
        }
        return {key: value for key, value in record.items() if value}


def derivation_of(variant: VariantInfo) -> Derivation | None:
    """Return the variant's record of its source; None if it has none.

    Schemas check the record, except in a package read by the rules of a release of onnxruntime,
    which knows no such key; anything else than a record counts as none there.
    """
    fact = variant.metadata.get(DERIVED_FACT)
    if not isinstance(fact, Mapping):
        return None
    source, model, contexts = fact.get("variant"), fact.get("model"), fact.get("contexts", ())
    data, made_by = fact.get("data", EMPTY), fact.get("made_by", EMPTY)
    has_texts = isinstance(source, str) and isinstance(model, str)
    if not has_texts or not isinstance(data, Mapping) or not isinstance(made_by, Mapping):
        return None
    return Derivation(
        variant=str(source),
        model=str(model),
        data={location: str(digest) for location, digest in data.items()},
        made_by=made_by,
        contexts=tuple(map(str, contexts)) if isinstance(contexts, tuple | list) else (),
    )


def compiled_unseen(variant: VariantInfo) -> str:
    """Return the device that a variant was compiled for without it; "" for any other variant.

    Such a variant never ran before its first use on a machine that has the device.
    """
    derivation = derivation_of(variant)
    device = "" if derivation is None else derivation.made_by.get(FOR_DEVICE, "")
    return device if isinstance(device, str) else ""


def is_derived(variant: VariantInfo) -> bool:
    """Return True if the variant has a record of its source."""
    return DERIVED_FACT in variant.metadata


def plain_variant_hint(variants: Iterable[VariantInfo]) -> str:
    """Return the end of a sentence that offers a plain variant among ``variants``; "" if none is.

    A plain variant has no compiled context, so it needs no trust.
    """
    plain = [
        variant
        for variant in variants
        if not variant.constraints.ep_compatibility_info and not is_derived(variant)
    ]
    if not plain:
        return ""
    fetching = " (ortpkg install --variant fetches one)"
    are_absent = all(variant.is_absent for variant in plain)
    return f"or run a plain variant{fetching if are_absent else ''}"


def why_stale(variant: VariantInfo, source: VariantInfo | None, digests_of: DigestsOf) -> str:
    """Return how the source differs from the model that the variant was compiled from.

    Args:
        variant: the variant, derived or not.
        source: the variant that its record names, as it is now; None if there is none.
        digests_of: looks up the recorded digests of a file.

    Returns:
        The end of a sentence ("it was made of another model than ..."); "" if the source is the
        same, or if nobody can tell: no record, no source, no digests.
    """
    derivation = derivation_of(variant)
    if derivation is None or source is None or source.model_path is None:
        return ""
    return why_another_source(derivation, source.model_path, data_folder_of(source), digests_of)


def why_another_source(
    derivation: Derivation, model: Path, data_folder: Path, digests_of: DigestsOf
) -> str:
    """Return how ``model`` and its data files in ``data_folder`` differ from the recorded source.

    Returns:
        The same as :func:`why_stale`.
    """
    reason = (
        "it was made of another model than the one of variant"
        f" {quoted(derivation.variant)} beside it"
    )
    if _differs(digests_of(model), derivation.model):
        return reason
    for location, digest in derivation.data.items():
        if _differs(digests_of(data_folder / location), digest):
            return f"{reason}: the data file {quoted(location)} has changed"
    return ""


def source_of(variant: VariantInfo, component: ComponentInfo) -> VariantInfo | None:
    """Return the variant of ``component`` that this one was compiled from, if it exists."""
    derivation = derivation_of(variant)
    return None if derivation is None else component.variant(derivation.variant)


def stale_variants(component: ComponentInfo, digests_of: DigestsOf) -> dict[str, str]:
    """Map the name of each stale variant of the component to how its source differs."""
    reasons = {}
    for variant in component.variants:
        if is_derived(variant) and (
            reason := why_stale(variant, source_of(variant, component), digests_of)
        ):
            reasons[variant.name] = reason
    return reasons


def recorded_digests(package: PackageInfo) -> DigestsOf:
    """Return a lookup of file digests in the package's digests.json, which is read at first use.

    Files that are not on the disk are found too. The lookup raises PackageFormatError if
    digests.json is damaged.
    """
    recorded: dict[str, Collection[str]] | None = None

    def digests_of(path: Path) -> Collection[str]:
        nonlocal recorded
        if recorded is None:
            recorded = _read(package.root)
        real = os.path.realpath(path)
        return recorded.get(os.path.relpath(real, package.root).replace(os.sep, "/"), ())

    return digests_of


def recorded_or_computed_digests(package: PackageInfo) -> DigestsOf:
    """Return a lookup like :func:`recorded_digests`; without a digests.json, files are hashed."""
    if has_digests(package.root):
        return recorded_digests(package)
    from ortpkg.foundations.storage.digest_cache import (
        file_sha256,  # only needed if nothing is recorded
    )

    return lambda path: (file_sha256(path),) if path.is_file() else ()


def current_digests(package: PackageInfo) -> DigestsOf:
    """Return a lookup like :func:`recorded_digests` that hashes files that may differ from it.

    These are files that changed after digests.json was written, and files that it does not record.
    Digests of large files are cached. A file that is not on the disk has its recorded digests.
    """
    recorded = recorded_digests(package)
    recorded_at_ns: int | None = None

    def digests_of(path: Path) -> Collection[str]:
        nonlocal recorded_at_ns
        digests, stamp = recorded(path), file_stamp(path)
        if stamp is None:
            return digests
        if recorded_at_ns is None:
            recorded_at_ns = _changed_at_ns(file_stamp(package.root / DIGESTS_FILE))
        if digests and _changed_at_ns(stamp) < recorded_at_ns:
            return digests
        from ortpkg.foundations.storage.digest_cache import file_sha256  # few files need hashing

        sha256 = file_sha256(path)
        return (sha256,) if sha256 else digests

    return digests_of


def _changed_at_ns(stamp: FileStamp | None) -> int:
    """Time of the last change to a file; includes renaming where the system records it."""
    return 0 if stamp is None else max(stamp.mtime_ns, stamp.ctime_ns)


def stale_note(name: str, reason: str) -> str:
    """Return the sentence that reports a stale variant, with the remedy."""
    return (
        f"variant {quoted(name)} is stale and not chosen any more: {reason}; ortpkg compile --renew"
        " makes it anew"
    )


def verify_none_is_stale(package: PackageInfo) -> None:
    """Check, before a package is shipped, that the source of every derived variant is the same.

    Raises:
        StalePackageError: some variants were compiled from another model; names them and the
            remedy.
    """
    digests_of = recorded_or_computed_digests(package)
    stale = [
        (variant, why)
        for component in package.components
        for variant, why in stale_variants(component, digests_of).items()
    ]
    if stale:
        listed = "\n".join(f"  variant {quoted(variant)} is stale: {why}" for variant, why in stale)
        raise StalePackageError(
            f"{quoted(package.root)} has compiled variants that no session would run:\n{listed}\n"
            "make them anew with ortpkg compile --renew, or take them out with ortpkg"
            " remove-variant",
            variants=[variant for variant, _ in stale],
            path=package.root,
        )


def _read(root: Path) -> dict[str, Collection[str]]:
    if not has_digests(root):
        return {}
    from ortpkg.package.integrity.digests import read_digests  # few packages need hashing

    digests = read_digests(root)
    return {} if digests is None else {path: file.digests for path, file in digests.files.items()}


def _differs(digests: Collection[str], recorded: str) -> bool:
    return bool(digests) and recorded not in digests
