"""``ortpkg push``: publishes a package in a registry."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ortpkg.cli.parameters import DryRunOption, WholePackageArgument
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.distribution.publishing import PublishReport, publish
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.foundations.errors import ExitCode, PackageReferenceError, quoted
from ortpkg.package.references.package_references import (
    LayoutReference,
    OciReference,
    Reference,
    parse_reference,
)

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="The place: oci://host[:port]/repository[:tag], or oci-layout:FOLDER[:tag].",
    ),
]
TagsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        "-t",
        metavar="TAG",
        help="Name it so there, repeatable; default: the package's version.",
    ),
]
MountFromOption = Annotated[
    str | None,
    typer.Option(
        "--mount-from",
        metavar="REPOSITORY",
        help="Another repository of the same registry that may have the files already.",
    ),
]


def command(
    output: Output,
    package: WholePackageArgument,
    reference: TargetArgument,
    tags: TagsOption = None,
    mount_from: MountFromOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Publish a package: its documents as one layer, every other file once, by its digest.

    Files that the registry has already are not sent again. The same package gives the same digest,
    whoever publishes it.
    """
    where = _writable(parse_reference(reference), reference)
    with copy_progress() as progress:
        report = publish(
            package,
            repository_of(where),
            tags=[*([where.tag] if where.tag else []), *(tags or [])],
            mount_from=mount_from,
            is_rehearsal=dry_run,
            progress=progress,
            notify=output.note,
        )
    if output.is_json:
        output.json("push", {"dry_run": dry_run, **_report_json(report)})
    else:
        _print_report(report, where, output, is_rehearsal=dry_run)
    return ExitCode.DONE


def _writable(reference: Reference, text: str) -> OciReference | LayoutReference:
    if not isinstance(reference, OciReference | LayoutReference):
        raise PackageReferenceError(
            f"{quoted(text)} is no place to publish to: that is oci://host/repository[:tag], or"
            " oci-layout:FOLDER[:tag]",
            reference=text,
        )
    if reference.digest is not None:
        raise PackageReferenceError(
            f"{quoted(text)} names one version by its digest: give a tag, the digest follows from"
            " the package",
            reference=text,
        )
    return reference


def _print_report(
    report: PublishReport,
    where: OciReference | LayoutReference,
    output: Output,
    *,
    is_rehearsal: bool,
) -> None:
    if not report.is_verified:
        output.warning(
            "the package has no digests.json, so damage to it goes unnoticed; what is published"
            " has one"
        )
    for tag, digest in report.moved_tags.items():
        names = "would no longer name" if is_rehearsal else "no longer names"
        output.warning(f"tag {quoted(tag)} {names} {digest}")
    sent = f"{nbytes_text(report.sent_nbytes)} of {nbytes_text(report.nbytes)}"
    output.note(f"{'would send' if is_rehearsal else 'sent'} {sent}, {report.files} files")
    for tag in report.tags:
        output.line(f"{where.without_version}:{tag}@{report.digest}")


def _report_json(report: PublishReport) -> dict[str, Any]:
    return {
        "repository": report.repository,
        "digest": report.digest,
        "tags": list(report.tags),
        "moved_tags": dict(report.moved_tags),
        "files": report.files,
        "nbytes": report.nbytes,
        "sent_nbytes": report.sent_nbytes,
        "verified": report.is_verified,
    }
