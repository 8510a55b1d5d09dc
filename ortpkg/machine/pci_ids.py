"""Names of PCI devices from the system's copy of the PCI ID Repository (pci.ids), if any."""

from __future__ import annotations

import stat
from functools import cache
from pathlib import Path

#: Paths of the file in distributions (hwdata, pciutils).
_PATHS = ("usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids")
_MOST_BYTES = 8 << 20
_MOST_CHARACTERS = 256


def pci_ids_name(root: Path, vendor_id: int, device_id: int) -> str | None:
    """Return the device's name in the list, e.g. "Meteor Lake-P [Intel Arc Graphics]".

    None if it is not listed.
    """
    data = _read_list(root)
    start = data.find(b"\n%04x  " % vendor_id)
    if start < 0:
        return None
    # A vendor's devices are lines that begin with one tab; the next vendor's line begins with a
    # number.
    line_end, end = start, len(data)
    wanted = b"\t%04x  " % device_id
    while 0 <= (line_end := data.find(b"\n", line_end + 1)) < end - 1:
        if data.startswith(wanted, line_end + 1):
            row = data[line_end + 1 + len(wanted) : line_end + 1 + len(wanted) + _MOST_CHARACTERS]
            return row.partition(b"\n")[0].decode("utf-8", "replace").strip() or None
        if data[line_end + 1 : line_end + 2] not in (b"\t", b"#", b"\n"):
            return None
    return None


@cache
def _read_list(root: Path) -> bytes:
    for relative_path in _PATHS:
        try:
            path = root / relative_path
            if stat.S_ISREG(path.stat().st_mode):
                with path.open("rb") as file:
                    return b"\n" + file.read(_MOST_BYTES)
        except OSError:
            continue
    return b""
