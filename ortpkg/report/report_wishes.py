"""Options of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.machine.profiles import MachineProfile

if TYPE_CHECKING:
    from ortpkg.selection.measuring.measured_candidates import CandidateResult


class DrawnGraphs(StrEnum):
    """Variants whose graphs a report draws."""

    CHOSEN = "chosen"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWishes:
    """Options of what a report shows besides the package's own content.

    Attributes:
        profiles: Other machines to select for: names of built-in profiles, files, or profiles.
        graphs: Graphs of the variants selected here, of all that run here, or none.
        backend: Backend that plans the graphs; None for the embedded engine if it runs the variant,
            else the one that does.
        eps: Execution providers among which to divide the graphs, in order, instead of the selected
            one.
        sizes: Sizes of symbolic dimensions, for the memory of plans; 1 for others.
        results: Measurements for this report.
        verifies_all: True to hash every file, however large.
    """

    profiles: Sequence[str | MachineProfile] = ()
    graphs: DrawnGraphs = DrawnGraphs.CHOSEN
    backend: str | None = None
    eps: Sequence[str] = ()
    sizes: Mapping[str, int] = EMPTY
    results: Sequence[CandidateResult] = ()
    verifies_all: bool = False
