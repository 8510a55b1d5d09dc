"""``ortpkg verify``: compares a package's bytes with the record in digests.json."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ortpkg.api.verify import record_digests, verify
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_argument import NamedPackage, Use, resolved_packages
from ortpkg.cli.parameters import DryRunOption, TrustPolicyOption
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.signature_verification import (
    IdentityOption,
    KeyOption,
    TrustRootsOption,
    WantedSigner,
    acceptances_json,
    check_here,
    print_acceptances,
    vouching_publisher,
)
from ortpkg.foundations.errors import ExitCode, PackageError, UsageError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.package.derived_variants import recorded_or_computed_digests, stale_note, stale_variants
from ortpkg.package.integrity.verification import VerificationReport
from ortpkg.package.reader import open_package
from ortpkg.package.references.package_references import (
    LayoutReference,
    OciReference,
    parse_reference,
)

VerifiedPackageArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="PKG|REF",
        help=(
            "A package (name.ortpackage, a name in the store), or with --signature oci://... or"
            " oci-layout:...; default: what the current folder lies in."
        ),
    ),
]
RepairFromOption = Annotated[
    Path | None,
    typer.Option(
        "--repair-from",
        metavar="OTHER",
        help=(
            "Another copy, a directory or a packed file, to take damaged and missing files from."
        ),
    ),
]
RecordOption = Annotated[
    bool,
    typer.Option(
        "--record",
        help=(
            "Write digests.json for the files as they are, after you edited documents. Verify"
            " first: it blesses "
            "whatever is there, damage included."
        ),
    ),
]
SignatureOption = Annotated[
    bool,
    typer.Option(
        "--signature",
        help=(
            "Also demand a signature over what is recorded; whose, say --key, --identity or the"
            " trust policy."
        ),
    ),
]


def command(
    output: Output,
    package: VerifiedPackageArgument = None,
    repair_from: RepairFromOption = None,
    record: RecordOption = False,
    signature: SignatureOption = False,
    key: KeyOption = None,
    identity: IdentityOption = None,
    trust_roots: TrustRootsOption = None,
    trust_policy: TrustPolicyOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Re-hash every file of a package; name each that changed, is missing, extra or unreadable.

    It finds damage, not tampering, for whoever changes a file can change its digest too: that is
    what --signature is for. Where no signature is accepted, the exit code is 7.

    The exit code is 0, or the sum of: 16 files changed, 32 files missing or extra, 64 files
    unreadable, 128 unverified (no digests.json, or not all of it can be read).
    """
    wanted = WantedSigner(key=key, identity=identity, trust_roots=trust_roots, policy=trust_policy)
    demands_signature = signature or wanted.is_stated
    _refuse_contradictions(
        repair_from, record=record, dry_run=dry_run, demands_signature=demands_signature
    )
    reference = parse_reference(package) if package is not None else None
    if isinstance(reference, OciReference | LayoutReference):
        return _verify_published(reference, wanted, output, is_wanted=demands_signature)
    use = Use.CHANGE if record or repair_from is not None else Use.READ
    named = None if package is None else NamedPackage.of(package, use)
    root = chosen_package(resolved_packages({"package": named}, output)["package"], output)
    acceptances = check_here(root, wanted) if demands_signature else None
    report = _report(root, repair_from, output, record=record, operations=operations_for(dry_run))
    exit_code = ExitCode.DONE if record else report.exit_code
    if output.is_json:
        content = {"recorded": record, "exit_code": int(exit_code), **_report_json(report)}
        if acceptances is not None:
            content["signatures"] = acceptances_json(acceptances)
        output.json("verify", content)
    else:
        _print_report(report, output, is_recorded=record)
        _warn_of_stale(root, output)
        if acceptances is not None:
            print_acceptances(acceptances, output)
    return int(exit_code)


def _refuse_contradictions(
    repair_from: Path | None, *, record: bool, dry_run: bool, demands_signature: bool
) -> None:
    if record and repair_from is not None:
        raise UsageError(
            "--record accepts the files as they are, --repair-from replaces them: give one of"
            " the two"
        )
    changes_package = record or repair_from is not None
    if dry_run and not changes_package:
        raise UsageError(
            "--dry-run is for --record and --repair-from: without them, verify changes nothing"
        )
    if demands_signature and changes_package:
        raise UsageError("--record and --repair-from change the package: look at signatures after")


def _report(
    root: Path,
    repair_from: Path | None,
    output: Output,
    *,
    record: bool,
    operations: FileOperations | None,
) -> VerificationReport:
    """Compare the files with digests.json; record or repair them if requested."""
    with copy_progress() as progress:
        if record:
            return record_digests(
                root, progress=progress, notify=output.note, operations=operations
            )
        return verify(
            root,
            repair_from=repair_from,
            progress=progress,
            notify=output.note,
            operations=operations,
        )


def _verify_published(
    reference: OciReference | LayoutReference,
    wanted: WantedSigner,
    output: Output,
    *,
    is_wanted: bool,
) -> int:
    """Check the signatures of a package whose files are elsewhere."""
    if not is_wanted:
        raise UsageError(
            f"{quoted(str(reference))} is not here, so there are no files to hash; --signature"
            " looks at its signatures"
        )
    acceptances = vouching_publisher(reference, wanted)
    if output.is_json:
        output.json("verify", {"exit_code": 0, "signatures": acceptances_json(acceptances)})
    else:
        print_acceptances(acceptances, output)
    return ExitCode.DONE


def _print_report(report: VerificationReport, output: Output, *, is_recorded: bool) -> None:
    reasons = dict(report.not_repaired)
    for file in report.repaired:
        output.line(f"repaired: {_shown(file)}", style="green")
    for difference in report.differences:
        output.line(
            f"{difference.kind}: {_shown(difference.file)}: {difference.message}", style="red"
        )
        if difference.expected and difference.actual:
            output.line(f"    expected {difference.expected}, found {difference.actual}")
        if difference.file in reasons:
            output.line(f"    not repaired: {reasons[difference.file]}")
    for note in report.notes:
        output.warning(note)
    amount = f"{report.file_count} files, {nbytes_text(report.nbytes)}"
    if is_recorded:
        compared = (
            f"; {len(report.differences)} differed from what was recorded before"
            if report.is_compared
            else ""
        )
        output.note(f"recorded {amount}{compared}")
    elif report.is_intact and report.absent_files:
        output.note(
            f"what is here of {report.root} is intact: {amount}; absent, and not damaged:"
            f" {len(report.absent_files)} files,"
            f" {nbytes_text(sum(report.absent_files.values()))}; {report.package_digest}"
        )
    elif report.is_intact:
        output.note(f"{report.root} is intact: {amount}, {report.package_digest}")
    else:
        count = len(report.differences)
        output.note(f"{count} file{' differs' if count == 1 else 's differ'}; {amount} were read")


def _warn_of_stale(root: Path, output: Output) -> None:
    """Print compiled variants whose source is another model; nothing for an unreadable package."""
    with contextlib.suppress(PackageError):
        package = open_package(root)
        for component in package.components:
            for name, reason in stale_variants(
                component, recorded_or_computed_digests(package)
            ).items():
                output.warning(stale_note(name, reason))


def _report_json(report: VerificationReport) -> dict[str, Any]:
    return {
        "intact": report.is_intact,
        "complete": report.is_complete,
        "compared": report.is_compared,
        "files": report.file_count,
        "nbytes": report.nbytes,
        "package_digest": report.package_digest,
        "differences": [
            {
                "kind": difference.kind.value,
                "file": _shown(difference.file),
                "message": difference.message,
                "expected": difference.expected,
                "actual": difference.actual,
            }
            for difference in report.differences
        ],
        "absent": {_shown(file): nbytes for file, nbytes in report.absent_files.items()},
        "repaired": [_shown(file) for file in report.repaired],
        "not_repaired": [
            {"file": _shown(file), "reason": reason} for file, reason in report.not_repaired
        ],
        "notes": list(report.notes),
    }


def _shown(file: str) -> str:
    r"""Return a file's name as text that any encoding can print.

    Bytes that are not UTF-8 become ``\xNN``.
    """
    return os.fsencode(file).decode("utf-8", "backslashreplace")
