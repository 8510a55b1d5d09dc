"""Check that a package to be written stays within the limits for its documents together.

Otherwise it would be written, and then no reader would open it.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ortpkg.authoring.package_plan import PackagePlan
from ortpkg.foundations.documents.document_limits import DEFAULT_LIMITS
from ortpkg.foundations.documents.json_limits import parse_counted_json
from ortpkg.foundations.errors import AuthoringError
from ortpkg.package.counted_documents import PackageLimits
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.package_info import PackageFormat, PackageInfo
from ortpkg.package.sidecar import PIPELINE, SAMPLES


class _Document(NamedTuple):
    path: str
    content: bytes
    read_count: int


class PackageTotals:
    """Sums of a package of the format ``form``; AuthoringError if they exceed a limit."""

    def __init__(self, form: PackageFormat) -> None:
        self._most = PackageLimits()
        # Both generations' keys of a universal package lead to the document of a component.
        self._times = 2 if form is PackageFormat.UNIVERSAL else 1
        self._documents: list[_Document] = []
        self._nbytes = 0

    def add(self, path: str, content: bytes, *, references: int = 1) -> None:
        """Add a document to which so many component models refer; the manifest is read once."""
        times = 1 if path == MANIFEST else references * self._times
        self._documents.append(_Document(path, content, times))
        self._nbytes += len(content)
        _check(self._nbytes, self._most.nbytes, "bytes of documents")

    def check(self, *, components: int, variants: int) -> None:
        """Check everything added, and the numbers of component models and of their variants."""
        _check(components, self._most.components, "component models")
        _check(variants, self._most.variants, "variants")
        # A value takes at least one character and a separator.
        most = sum(len(document.content) // 2 * document.read_count for document in self._documents)
        if most > self._most.values:
            values = sum(
                _value_count(document) * document.read_count for document in self._documents
            )
            _check(
                values,
                self._most.values,
                "values in documents, each counted as often as its document is read",
            )


def check_merged(plan: PackagePlan, base: PackageInfo, other: PackageInfo) -> None:
    """Raise AuthoringError if ``base``, changed as planned to hold ``other``, would not open."""
    totals = PackageTotals(base.format)
    references = Counter(component.source.document for component in base.components)
    for path in dict.fromkeys((MANIFEST, *references, *plan.documents)):
        if path in {PIPELINE, SAMPLES}:  # these have limits of their own
            continue
        content = plan.documents.get(path)
        if content is None:
            content = (base.root / path).read_bytes()
        totals.add(path, content, references=references.get(path, 1))
    names = {
        (component.name, variant.name)
        for package in (base, other)
        for component in package.components
        for variant in component.variants
    }
    totals.check(components=len({component for component, _ in names}), variants=len(names))


def _value_count(document: _Document) -> int:
    return parse_counted_json(document.content, document.path, DEFAULT_LIMITS).value_count


def _check(count: int, most: int, noun: str) -> None:
    if count > most:
        raise AuthoringError(
            f"the package would hold more than {most:,} {noun}, and could not be opened any more;"
            " nothing was written"
        )
