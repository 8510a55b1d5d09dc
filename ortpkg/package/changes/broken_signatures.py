"""Report which signatures a change breaks: a signature covers the files as they were signed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ortpkg.foundations.documents.finding_collector import listed
from ortpkg.foundations.errors import quoted, unquoted
from ortpkg.foundations.storage.file_stamp import file_stamp
from ortpkg.package.sidecar import DIGESTS_FILE, signature_names


@contextlib.contextmanager
def report_broken_signatures(root: Path, notify: Callable[[str], None] | None) -> Iterator[None]:
    """Call ``notify`` if the block changes the digests.json of a signed package."""
    before = file_stamp(root / DIGESTS_FILE)
    yield
    if notify is None or file_stamp(root / DIGESTS_FILE) == before:
        return
    if names := signature_names(root):
        notify(
            f"{quoted(root)} is signed ({listed(names)}), over its files as they were: it is not"
            f" accepted any more until it is signed again (ortpkg sign {unquoted(root)} --key KEY)"
        )


def report_lost_signatures(
    sources: tuple[Path, ...], target: Path, notify: Callable[[str], None]
) -> None:
    """Call ``notify`` if ``sources`` are signed: the new package ``target`` is not."""
    signed = [str(source) for source in sources if signature_names(source)]
    if signed:
        notify(
            f"signed: {listed(signed)}; {quoted(target)} has other files, and no signature: sign"
            f" it (ortpkg sign {unquoted(target)} --key KEY)"
        )
