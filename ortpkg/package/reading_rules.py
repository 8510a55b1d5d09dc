"""Rules of reading a package: strict ones, or those of one onnxruntime release.

One reader serves both. Each place where they differ reads one attribute of :class:`ReadingRules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ortpkg.foundations.documents import document_rules
from ortpkg.foundations.documents.document_limits import DEFAULT_LIMITS, DocumentLimits
from ortpkg.foundations.documents.frozen import FrozenMapping
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.onnxruntime_releases import (
    ONNXRUNTIME_1_30,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)
from ortpkg.package import rules
from ortpkg.package.counted_documents import PackageLimits


class ReadingRules(NamedTuple):
    """Rules by which a package is read.

    Attributes:
        compat: the release whose verdict is given; None for the strict rules.
        limits: of each document, and what is tolerated in it.
        package_limits: of all documents together.
        generations: the metadata generation can be read too; otherwise every manifest is of the
            component generation.
        extensions: pipeline.json and additional_metadata.ortpkg, which are ortpkg's own, are read
            and checked.
        portable_names: names and paths must be such that every operating system can hold them;
            otherwise a path in the package may hold anything but ``..`` and must be relative, and a
            name may be any text.
        confined_documents: manifest.json and component.json may not be links that leave the
            package.
        confined_assets: folders in shared_assets/ may not be links that leave the package.
        unlinked_assets: in a package of the layout "portable", no folder of shared assets is the
            package itself, a link, or below one.
        complete: model files, folders of variants and folders of assets must exist and have the
            right kind.
        follows_installed_layout: a package that states the layout "installed" may name paths
            outside of it, even if the caller does not allow it.
        checks_option_keys: session options that write files, and keys of options with a NUL, are
            refused.
        statuses: rule id → the release's status for a finding of that rule; None: findings carry
            rule ids.
    """

    compat: str | None
    limits: DocumentLimits
    package_limits: PackageLimits
    generations: bool
    extensions: bool
    portable_names: bool
    confined_documents: bool
    confined_assets: bool
    unlinked_assets: bool
    complete: bool
    follows_installed_layout: bool
    checks_option_keys: bool
    statuses: Mapping[str, str] | None


STRICT = ReadingRules(
    compat=None,
    limits=DEFAULT_LIMITS,
    package_limits=PackageLimits(),
    generations=True,
    extensions=True,
    portable_names=True,
    confined_documents=True,
    confined_assets=True,
    unlinked_assets=False,
    complete=True,
    follows_installed_layout=False,
    checks_option_keys=True,
    statuses=None,
)

# "Error codes of the standalone library", model_package.h of onnxruntime 1.31; FAIL is
# onnxruntime's own, for errors in executor_info.ort. ORT002 has no counterpart: that release has
# no limits, and overflows the stack instead.
STATUSES_1_31: Mapping[str, str] = FrozenMapping(
    {
        document_rules.DOCUMENT_UNREADABLE.id: "ORTC-IO",
        document_rules.DOCUMENT_SYNTAX.id: "ORTC-SCHEMA",
        document_rules.DOCUMENT_SHAPE.id: "ORTC-SCHEMA",
        rules.UNKNOWN_KEY.id: "ORTC-SCHEMA",
        rules.SCHEMA_VERSION.id: "ORTC-VERSION",
        rules.PATH_NOT_PORTABLE.id: "ORTC-PATH_CONFINEMENT",
        rules.PATH_ESCAPES.id: "ORTC-PATH_CONFINEMENT",
        rules.ASSET_UNKNOWN.id: "ORTC-ASSET_MISSING",
        rules.FILE_MISSING.id: "ORTC-NOT_FOUND",
        rules.PATH_EMPTY.id: "ORTC-INVALID_ARG",
        rules.ASSET_REFERENCE.id: "ORTC-SCHEMA",
        rules.EXECUTOR_INFO.id: "ORTC-FAIL",
        rules.SESSION_OPTION_FORBIDDEN.id: "ORTC-FAIL",
    }
)

_AS_1_31 = ReadingRules(
    compat=ONNXRUNTIME_1_31,
    # That release has no limits. These are far above any package, and below what exhausts memory or
    # the stack.
    limits=DocumentLimits(
        nbytes=64 * 1024 * 1024,
        depth=200,
        values=4_000_000,
        string_length=64 * 1024 * 1024,
        number_length=4000,
        repeated_keys=True,
        text_after_nul=True,
    ),
    package_limits=PackageLimits(nbytes=256 * 1024 * 1024, values=8_000_000),
    generations=False,
    extensions=False,
    portable_names=False,
    confined_documents=False,
    confined_assets=False,
    unlinked_assets=False,
    complete=False,
    follows_installed_layout=True,
    checks_option_keys=True,
    statuses=STATUSES_1_31,
)
_BY_NAME: Mapping[str, ReadingRules] = FrozenMapping(
    {
        ONNXRUNTIME_1_30: _AS_1_31._replace(compat=ONNXRUNTIME_1_30, checks_option_keys=False),
        ONNXRUNTIME_1_31: _AS_1_31,
        ONNXRUNTIME_1_32: _AS_1_31._replace(compat=ONNXRUNTIME_1_32, unlinked_assets=True),
    }
)

COMPAT_NAMES = tuple(_BY_NAME)


def reading_rules(compat: str | None) -> ReadingRules:
    """Return the strict rules for None, else those of the named release.

    Raises:
        UsageError: no such release is known.
    """
    if compat is None:
        return STRICT
    try:
        return _BY_NAME[compat]
    except KeyError:
        names = ", ".join(COMPAT_NAMES)
        raise UsageError(
            f"compat {quoted(compat)} is not known: use {names}, or leave it out"
        ) from None
