"""Names of PCI devices by the system's copy of the PCI ID Repository (pci.ids), if it has one."""

from __future__ import annotations

import stat
from functools import cache
from pathlib import Path

#: Where distributions put it (hwdata, pciutils).
_PLACES = ("usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids")
_MOST_BYTES = 8 << 20
_MOST_CHARACTERS = 256


def pci_ids_name(root: Path, vendor_id: int, device_id: int) -> str | None:
    """The device's name in the list, e.g. "Meteor Lake-P [Intel Arc Graphics]".

    None where it is not listed.
    """
    data = _list_of(root)
    start = data.find(b"\n%04x  " % vendor_id)
    if start < 0:
        return None
    # A vendor's devices are lines that begin with one tab; the next vendor's line begins with a
    # number.
    place, end = start, len(data)
    wanted = b"\t%04x  " % device_id
    while 0 <= (place := data.find(b"\n", place + 1)) < end - 1:
        if data.startswith(wanted, place + 1):
            row = data[place + 1 + len(wanted) : place + 1 + len(wanted) + _MOST_CHARACTERS]
            return row.partition(b"\n")[0].decode("utf-8", "replace").strip() or None
        if data[place + 1 : place + 2] not in (b"\t", b"#", b"\n"):
            return None
    return None


@cache
def _list_of(root: Path) -> bytes:
    for place in _PLACES:
        try:
            path = root / place
            if stat.S_ISREG(path.stat().st_mode):
                with path.open("rb") as file:
                    return b"\n" + file.read(_MOST_BYTES)
        except OSError:
            continue
    return b""
