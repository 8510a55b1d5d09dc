"""What a command that packed or unpacked a package says of it."""

from __future__ import annotations

from pathlib import Path

from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.package.archive.package_archive import PackReport


def print_packed(command: str, report: PackReport, target: Path, output: Output) -> None:
    """Prints how much ``command`` (pack, unpack) moved, and where to."""
    if output.is_json:
        content = {
            "path": str(report.path),
            "files": report.file_count,
            "nbytes": report.nbytes,
            "package_digest": report.package_digest,
            "verified": report.is_verified,
        }
        output.json(command, content)
        return
    output.note(
        f"{command}ed {report.file_count} files, {nbytes_text(report.nbytes)},"
        f" {report.package_digest}"
    )
    output.line(target)
