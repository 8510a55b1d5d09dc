"""Output of commands that pack or unpack a package."""

from __future__ import annotations

from pathlib import Path

from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.package.archive.package_archive import PackReport


def print_packed(command: str, report: PackReport, target: Path, output: Output) -> None:
    """Print how much ``command`` (pack, unpack) wrote, and where."""
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
