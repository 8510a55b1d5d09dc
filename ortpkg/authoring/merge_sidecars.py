"""Merge the documents of two packages beside their components: pipeline.json, samples.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.authoring.sharing.contents import have_same_bytes
from ortpkg.foundations.documents.json_documents import dump_document, parse_document
from ortpkg.foundations.errors import quoted
from ortpkg.package.changes.transaction import DocumentChange
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import PIPELINE, SAMPLES, samples_document

_FOLDER = SAMPLES.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSidecars:
    """Merged pipeline.json and samples.

    Attributes:
        documents: the documents that change.
        files: path → file of the other package to copy.
        sources: files of the other package that are handled here.
        conflicts: contradictions between the two, a phrase each.
    """

    documents: tuple[DocumentChange, ...]
    files: Mapping[str, Path]
    sources: frozenset[str]
    conflicts: tuple[str, ...]


def merge_sidecars(base: PackageInfo, other: PackageInfo) -> MergedSidecars:
    """Merge pipelines, which must be equal, and sample sets.

    Tolerances for the variants of both become one table.
    """
    conflicts: list[str] = []
    documents = [*_merge_pipelines(base, other, conflicts), *_merge_samples(base, other, conflicts)]
    arrays = [
        path
        for path in list_files(other.root)
        if path.startswith(f"{_FOLDER}/") and path != SAMPLES
    ]
    files = {}
    for path in arrays:
        ours, theirs = base.root / path, other.root / path
        if not ours.exists():
            files[path] = theirs
        elif not have_same_bytes(ours, theirs):
            conflicts.append(f"the samples' file {quoted(path)} differs")
    return MergedSidecars(
        documents=tuple(documents),
        files=files,
        sources=frozenset(arrays),
        conflicts=tuple(conflicts),
    )


def _merge_pipelines(
    base: PackageInfo, other: PackageInfo, conflicts: list[str]
) -> Iterator[DocumentChange]:
    ours, theirs = _document(base.root, PIPELINE), _document(other.root, PIPELINE)
    if ours is None and theirs is not None:
        yield DocumentChange(path=PIPELINE, after=dump_document(theirs))
    elif theirs is not None and ours != theirs:
        conflicts.append(f"{PIPELINE} differs")


def _merge_samples(
    base: PackageInfo, other: PackageInfo, conflicts: list[str]
) -> Iterator[DocumentChange]:
    ours, theirs = samples_document(base.root), samples_document(other.root)
    if theirs is None:
        return
    if ours is None:
        yield DocumentChange(path=SAMPLES, after=dump_document(theirs))
        return
    by_name = {sample["name"]: sample for sample in ours["samples"]}
    merged = list(ours["samples"])
    for sample in theirs["samples"]:
        if (existing := by_name.get(sample["name"])) is None:
            merged.append(sample)
        elif _without_variants(existing) != _without_variants(sample):
            conflicts.append(f"the sample set {quoted(sample['name'])} differs")
        else:
            merged[merged.index(existing)] = _with_tolerances(existing, sample, conflicts)
    if merged != ours["samples"]:
        before = (base.root / SAMPLES).read_bytes()
        yield DocumentChange(
            path=SAMPLES, before=before, after=dump_document(ours | {"samples": merged})
        )


def _with_tolerances(
    ours: dict[str, Any], theirs: dict[str, Any], conflicts: list[str]
) -> dict[str, Any]:
    variants = dict(ours.get("variants", {}))
    for name, body in theirs.get("variants", {}).items():
        if variants.setdefault(name, body) != body:
            conflicts.append(
                f"the sample set {quoted(ours['name'])} has other tolerances for variant"
                f" {quoted(name)}"
            )
    return ours | ({"variants": variants} if variants else {})


def _without_variants(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sample.items() if key != "variants"}


def _document(root: Path, path: str) -> dict[str, Any] | None:
    return (
        parse_document((root / path).read_bytes(), document=path)
        if (root / path).is_file()
        else None
    )
