"""Parts that the commands on the store share: an installation as JSON, and as text."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import typer

from ortpkg.distribution.store.generations import Generation, check_name
from ortpkg.foundations.errors import PackageReferenceError, quoted, unquoted
from ortpkg.package.references.package_references import StoreReference, parse_reference

InstalledArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The package's name in the store: see ortpkg list.")
]


def installed_reference(text: str) -> StoreReference:
    """The name, and tag or digest, of a package in the store; a folder of that name is not asked.

    PackageReferenceError for anything else.
    """
    reference = parse_reference(text)
    if isinstance(reference, StoreReference):
        return reference
    try:
        return StoreReference(name=check_name(text))
    except PackageReferenceError as error:
        raise PackageReferenceError(
            f"{quoted(text)} is not the name of an installed package: ortpkg list shows them",
            reference=text,
        ) from error


def generation_json(generation: Generation) -> dict[str, Any]:
    """An installation as JSON."""
    return {
        "name": generation.name,
        "generation": generation.number,
        "installed_at": time_text(generation.created),
        "reference": generation.reference,
        "tag": generation.tag,
        "version": generation.model_version or None,
        "digest": generation.digest,
        "variants": list(generation.variants),
        "why": generation.why,
        "asked": list(generation.asked),
        "nbytes": generation.nbytes,
        "full_nbytes": generation.full_nbytes,
    }


def version_text(generation: Generation) -> str:
    """Return the model's version with its tag or short digest, such as "2.0 (latest)"."""
    version_id = generation.tag or generation.digest[: len("sha256:") + 12]
    return model_version_text(generation.model_version, version_id)


def model_version_text(version: str, version_id: str) -> str:
    """Return the model's version with a tag or digest, such as "2.0 (latest)"."""
    name = unquoted(version)
    return f"{name} ({version_id})" if name and name != version_id else version_id


def time_text(time_s: float) -> str:
    """Return a time in UTC, such as "2026-11-23 04:30:00"."""
    return dt.datetime.fromtimestamp(time_s, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
