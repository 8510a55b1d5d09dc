"""Comparison of where nodes ran with what was requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortpkg.runtime.session.placement import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Something that did not run where it was requested.

    Attributes:
        message: Description for the user.
        is_fatal: True if the caller wants to fail for it.
    """

    message: str
    is_fatal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPlacement:
    """Placement that the caller requests.

    Attributes:
        least_percent: Least share of each component's nodes that must run where intended; None for
            any.
        is_strict: True to fail if an EP took no node, or a CPU replaced what was requested.
    """

    least_percent: float | None = None
    is_strict: bool = False

    def shortfalls(self, placements: Mapping[str, Placement]) -> list[Shortfall]:
        """Return the shortfalls of the placements by component.

        An EP without nodes is always one.
        """
        problems: list[Shortfall] = []
        for component, placement in placements.items():
            for entry in placement.idle_eps if placement.node_count else ():
                reason = f": {entry.reason}" if entry.reason else ""
                message = f"{component}: {entry.ep_name} ({entry.backend}) took no node{reason}"
                problems.append(Shortfall(message=message, is_fatal=self.is_strict))
            for entry in placement.entries:
                if entry.is_fallback and entry.node_count:
                    where = (
                        f"{entry.ep_name}"
                        f" ({', '.join(filter(None, (entry.backend, entry.device)))})"
                    )
                    message = (
                        f"{component}: {entry.node_count} of {placement.node_count} nodes fell back"
                        f" to {where}, in place of what was asked for"
                    )
                    problems.append(Shortfall(message=message, is_fatal=self.is_strict))
            if self.least_percent is not None and placement.offload_percent < self.least_percent:
                message = (
                    f"{component}: {placement.offload_percent:.1f} % of the nodes run where they"
                    f" were meant to, less than the {self.least_percent:g} % of --min-offload"
                )
                problems.append(Shortfall(message=message, is_fatal=True))
        return problems


def placement_json(placement: Placement) -> dict[str, Any]:
    """Return a placement as JSON."""
    return {
        "offload_percent": placement.offload_percent,
        "entries": [
            {
                "ep": entry.ep_name,
                "backend": entry.backend,
                "device": entry.device,
                "nodes": entry.node_count,
                "weight_nbytes": entry.weight_nbytes,
                "fallback": entry.is_fallback,
                "reason": entry.reason,
            }
            for entry in placement.entries
        ],
    }
