"""Read the documents of one package, each once, within limits for all of them together.

A limit per document does not bound a package: any number of components and executors may refer to
the same document, and each reference builds its own values from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.document_rules import DOCUMENT_TOO_LARGE
from ortpkg.foundations.documents.finding_collector import finding
from ortpkg.foundations.documents.json_documents import read_counted_json, require_object
from ortpkg.foundations.documents.json_limits import CountedJson
from ortpkg.foundations.errors import Finding, PackageFormatError
from ortpkg.package.document_names import MANIFEST


class PackageLimits(NamedTuple):
    """Upper limits for the documents of a package together.

    Attributes:
        nbytes: size of all files.
        values: number of JSON values in all documents, counted again for each reference to a
            document.
        components: number of component models.
        variants: number of variants of all components.
    """

    nbytes: int = 128 * 1024 * 1024
    values: int = 2_000_000
    components: int = 10_000
    variants: int = 100_000


class PackageTooLargeError(Exception):
    """End of reading a package, with one finding. Never leaves the package layer."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class CountedDocuments:
    """Reader of documents that reads each once; make a new one each time a package is opened.

    The values it returns are shared by all that refer to a document and must not be changed.

    Args:
        limits: of each document.
        most: of all together; exceeding it raises PackageTooLargeError.
    """

    __slots__ = ("_left", "_limits", "_most", "_read")

    def __init__(self, limits: DocumentLimits, most: PackageLimits) -> None:
        self._limits = limits
        self._most = most
        self._left = {"nbytes": most.nbytes, "values": most.values, "variants": most.variants}
        self._read: dict[str, CountedJson | PackageFormatError] = {}

    def read(self, path: str, *, document: str) -> Any:
        """Return the JSON value in the file at the real path ``path``.

        Args:
            path: the file.
            document: its name in findings.

        Raises:
            PackageFormatError: as :func:`~ortpkg.foundations.documents.json_documents.read_json`.
            PackageTooLargeError: the documents exceed a limit together.
        """
        content = self._read.get(path)
        if content is None:
            content = self._read[path] = self._read_first(path, document)
            if isinstance(content, CountedJson):
                self._take("nbytes", content.nbytes, document, "bytes")
        if isinstance(content, PackageFormatError):
            findings = tuple(replace(finding, document=document) for finding in content.findings)
            raise PackageFormatError.from_findings(findings, path=path)
        self._take(
            "values",
            content.value_count,
            document,
            "values, each counted as often as its document is referred to",
        )
        return content.value

    def read_object(self, path: str, *, document: str) -> dict[str, Any]:
        """Return the JSON object in a file; another value is a PackageFormatError, too."""
        return require_object(self.read(path, document=document), document, path)

    def count_components(self, count: int) -> None:
        """Check the number of component models that the manifest lists."""
        if count > self._most.components:
            raise _too_large(MANIFEST, self._most.components, "component models")

    def count_variants(self, count: int, document: str) -> None:
        """Count the variants of a component model, which ``document`` lists."""
        self._take("variants", count, document, "variants")

    def _read_first(self, path: str, document: str) -> CountedJson | PackageFormatError:
        try:
            return read_counted_json(path, document=document, limits=self._limits)
        except PackageFormatError as error:
            return error

    def _take(self, what: str, count: int, document: str, words: str) -> None:
        self._left[what] -= count
        if self._left[what] < 0:
            raise _too_large(document, getattr(self._most, what), words)


def _too_large(document: str, most: int, words: str) -> PackageTooLargeError:
    message = f"with this, the documents of the package hold more than {most:,} {words}"
    remedy = "no honest package needs so many"
    return PackageTooLargeError(finding(DOCUMENT_TOO_LARGE, document, message, remedy=remedy))
