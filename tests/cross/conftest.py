"""Code for AArch64, run on this machine by an emulator: ``make cross``.

Without the emulator nothing here is collected.
"""

from __future__ import annotations

from tests.cross.aarch64_process import EMULATOR

collect_ignore_glob = [] if EMULATOR else ["test_*.py"]
