"""Explain errors about a variant that another process removed from an open package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ortpkg.foundations.errors import (
    DigestMismatchError,
    ExecutionProviderError,
    ModelError,
    OrtpkgError,
    PackageError,
    quoted,
)
from ortpkg.package.package_info import PackageInfo, VariantInfo
from ortpkg.package.reader import open_package


def removal_error(subject: str, root: Path) -> PackageError:
    """Return the error about something that is no longer in the package at ``root``.

    Args:
        subject: what was removed, and how that shows, as the beginning of a sentence.
        root: the package's folder.
    """
    return PackageError(
        f"{subject} was removed after the package was opened; open it again", path=root
    )


@contextmanager
def removal_explained(package: PackageInfo, variant: VariantInfo) -> Iterator[None]:
    """Raise PackageError in place of errors about files of a variant that was removed meanwhile."""
    try:
        yield
    except (DigestMismatchError, ModelError, ExecutionProviderError, OSError) as error:
        if not _is_removed(package, variant):
            raise
        subject = f"variant {quoted(variant.name)} of {quoted(package.root)}"
        raise removal_error(subject, package.root) from error


def _is_removed(package: PackageInfo, variant: VariantInfo) -> bool:
    """Return True if the package's documents are valid and do not name the variant any more."""
    if package.is_bare_model:
        return False
    try:
        component = open_package(package.root, compat=package.compat).component(
            variant.component_name
        )
    except (OrtpkgError, OSError):
        return False  # the first error says more
    return component is None or component.variant(variant.name) is None
