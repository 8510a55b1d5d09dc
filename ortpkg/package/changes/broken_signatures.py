"""Says which signatures a change breaks: a signature is over the files as somebody signed them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ortpkg.documents.findings import listed
from ortpkg.errors import quoted, unquoted
from ortpkg.package.sidecar import DIGESTS_FILE, signature_names
from ortpkg.storage.file_stamp import file_stamp


@contextlib.contextmanager
def tells_of_broken_signatures(root: Path, notify: Callable[[str], None] | None) -> Iterator[None]:
    """Tells ``notify`` about the signatures in a package whose record is another one afterwards."""
    before = file_stamp(root / DIGESTS_FILE)
    yield
    if notify is None or file_stamp(root / DIGESTS_FILE) == before:
        return
    if names := signature_names(root):
        notify(
            f"{quoted(root)} is signed ({listed(names)}), over its files as they were: it is not"
            f" accepted any more until it is signed again (ortpkg sign {unquoted(root)} --key KEY)"
        )


def tell_of_lost_signatures(
    sources: tuple[Path, ...], target: Path, notify: Callable[[str], None]
) -> None:
    """Tells ``notify`` that a new package has not the signatures of those that it is made of."""
    signed = [str(source) for source in sources if signature_names(source)]
    if signed:
        notify(
            f"signed: {listed(signed)}; {quoted(target)} has other files, and no signature: sign"
            f" it (ortpkg sign {unquoted(target)} --key KEY)"
        )
