"""Opens repositories by their reference."""

from __future__ import annotations

from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.registry.repository import Repository
from ortpkg.package.references.package_references import LayoutReference, OciReference


def repository_of(reference: OciReference | LayoutReference) -> Repository:
    """Open the repository of a reference; the reference's version does not matter."""
    if isinstance(reference, OciReference):
        from ortpkg.distribution.registry.oci_registry import (
            open_oci_registry,  # urllib3 and ssl: 100 ms
        )

        return open_oci_registry(
            reference.host,
            reference.repository,
            # On this machine, the client finds out what the server speaks.
            is_plain_http=True if reference.is_plain_http else None,
        )
    return OciLayout(reference.directory)
