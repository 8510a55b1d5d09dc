"""What a selection asks of benchmarks: the records of a package on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortpkg.storage.state_directory import has_records

if TYPE_CHECKING:
    from ortpkg.package.package_info import PackageInfo
    from ortpkg.providers.machine_offer import MachineOffer
    from ortpkg.selection.measurements import SelectionRecords


def load_records(package: PackageInfo, offer: MachineOffer) -> SelectionRecords | None:
    """What is recorded of ``package`` on this machine; None where nothing is. Never raises.

    Measurements count as long as the fingerprint is the same; else they are there with
    ``stale_reason``, which names what changed. Quarantine counts while EP and driver have the
    versions with which the variant failed. A file that is no record of ours gives empty records
    whose ``stale_reason`` says so. Costs microseconds where nothing is recorded.
    """
    if not has_records():
        return None
    from ortpkg.measuring.record_store import (
        read_records,  # hashing and JSON, only where there is something
    )

    return read_records(package, offer)
