"""Measurements of ``ortpkg bench`` as costs for a session that partitions by cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.runtime.session.partition_entries import (
    COST,
    PARTITION_COSTS_ENTRY,
    PARTITION_POLICY_ENTRY,
)
from ortpkg.selection.choosing.package_selection import machine_records, offer_for
from ortpkg.selection.matching.measurements import device_key
from ortpkg.selection.matching.wishes import SelectionWishes

if TYPE_CHECKING:
    from ortpkg.machine.hardware import EpDevice
    from ortpkg.package.package_info import PackageInfo, VariantInfo
    from ortpkg.runtime.session.options import SessionOptions

_EMBEDDED = "embedded"


def state_measured_costs(
    options: SessionOptions, package: PackageInfo, variant: VariantInfo, ep_device: EpDevice
) -> None:
    """Add the times of a variant on ``ep_device`` and on the embedded CPU to ``options``.

    Does nothing if cost does not decide, if the caller states costs, or if there are no valid
    measurements.
    """
    entries = options.config_entries
    if (
        entries.get(PARTITION_POLICY_ENTRY) != COST
        or PARTITION_COSTS_ENTRY in entries
        or ep_device.ep_name == CPU_EP
    ):
        return
    component = package.component(variant.component_name)
    assert component is not None
    offer, machine = offer_for(component, SelectionWishes(ep=ep_device.ep_name))
    records = machine_records(package, offer, machine)
    if records is None or records.stale_reason:
        return
    wanted = (ep_device.ep_name, ep_device.backend, device_key(ep_device, offer.ep_devices))
    measured = {
        measurement.ep_name: {"model_s": measurement.p50_s}
        for measurement in records.measurements
        if (measurement.component_name, measurement.variant_name)
        == (variant.component_name, variant.name)
        and (
            (measurement.ep_name, measurement.backend, measurement.device) == wanted
            or (measurement.ep_name, measurement.backend) == (CPU_EP, _EMBEDDED)
        )
    }
    if measured:
        options.add_session_config_entry(PARTITION_COSTS_ENTRY, json.dumps({"providers": measured}))
