"""The repository behind a reference."""

from __future__ import annotations

from ortpkg.registry.oci_layout import OciLayout
from ortpkg.registry.references import LayoutReference
from ortpkg.registry.repository import Repository


def repository_of(reference: LayoutReference) -> Repository:
    """The repository that a reference lies in, whichever version it names."""
    return OciLayout(reference.directory)
