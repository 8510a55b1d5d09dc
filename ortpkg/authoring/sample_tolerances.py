"""Copy the tolerances of samples from a variant to the variants compiled from it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from ortpkg.foundations.documents.json_documents import dump_document, parse_document
from ortpkg.package.changes.transaction import DocumentChange
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import SAMPLES


def samples_with_copied_tolerances(
    package: PackageInfo, copies: Iterable[tuple[str, str, str]]
) -> Iterator[DocumentChange]:
    """Yield samples.json with the tolerances of source variants copied to new ones.

    Yield nothing if nothing changes: the source has no tolerances of its own, or there are no
    samples.

    Args:
        package: as it is now.
        copies: component, source variant, new variant; present entries about a new variant stay.
    """
    path = package.root / SAMPLES
    if not path.is_file():
        return
    before = path.read_bytes()
    document = parse_document(before, document=SAMPLES)
    is_changed = False
    for component, source, name in copies:
        for variants in _variants_of_samples(document, component):
            if source in variants and name not in variants:
                variants[name] = copy.deepcopy(variants[source])
                is_changed = True
    if is_changed:
        yield DocumentChange(path=SAMPLES, before=before, after=dump_document(document))


def _variants_of_samples(document: dict[str, Any], component: str) -> Iterator[dict[str, Any]]:
    """Yield ``variants`` of each sample set for ``component`` or the pipeline.

    Malformed entries are skipped.
    """
    samples = document.get("samples")
    for sample in samples if isinstance(samples, list) else ():
        if isinstance(sample, dict) and sample.get("component") in (None, component):
            variants = sample.get("variants")
            if isinstance(variants, dict):
                yield variants
