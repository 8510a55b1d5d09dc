"""Lines of onnxruntime releases that behave alike: how each reads a package and selects from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ortpkg.foundations.errors import PackageNotFoundError, Severity
from ortpkg.foundations.onnxruntime_releases import (
    ONNXRUNTIME_1_27,
    ONNXRUNTIME_1_30,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import check_package
from ortpkg.selection.releases.common_rules import Refusal, ReleaseRules
from ortpkg.selection.releases.component_rules import COMPONENT_RULES_1_31, COMPONENT_RULES_1_32
from ortpkg.selection.releases.metadata_rules import METADATA_RULES
from ortpkg.selection.releases.release_1_27 import read_as_1_27

#: The package, or None if it is refused, with the reasons.
Reading = tuple[PackageInfo | None, tuple[Refusal, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLine:
    """Releases that behave alike.

    Attributes:
        covers: the releases, for people.
        read: reads a folder as they do.
        finds_the_same: True if they find what ortpkg finds in a package that both open.
        rules: rules by which they select.
    """

    covers: str
    read: Callable[[Path], Reading]
    finds_the_same: bool
    rules: ReleaseRules


def _read_components(compat: str, root: Path) -> Reading:
    try:
        package, findings = check_package(root, compat=compat)
    except PackageNotFoundError:  # a component's own folder, which the metadata generation reads
        return None, (Refusal(document=MANIFEST, message="there is none", status="ORTC-IO"),)
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    return package, tuple(
        Refusal(
            document=error.document, message=error.message, pointer=error.pointer, status=error.rule
        )
        for error in errors
    )


#: Oldest first.
RELEASE_LINES: Mapping[str, ReleaseLine] = {
    ONNXRUNTIME_1_27: ReleaseLine(
        covers="onnxruntime 1.26 and 1.27",
        read=read_as_1_27,
        finds_the_same=False,
        rules=METADATA_RULES,
    ),
    ONNXRUNTIME_1_30: ReleaseLine(
        covers="onnxruntime 1.28 to 1.30",
        read=partial(_read_components, ONNXRUNTIME_1_30),
        finds_the_same=True,
        rules=COMPONENT_RULES_1_31,
    ),
    ONNXRUNTIME_1_31: ReleaseLine(
        covers="onnxruntime 1.31",
        read=partial(_read_components, ONNXRUNTIME_1_31),
        finds_the_same=True,
        rules=COMPONENT_RULES_1_31,
    ),
    ONNXRUNTIME_1_32: ReleaseLine(
        covers="onnxruntime 1.32",
        read=partial(_read_components, ONNXRUNTIME_1_32),
        finds_the_same=True,
        rules=COMPONENT_RULES_1_32,
    ),
}
