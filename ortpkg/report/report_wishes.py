"""What somebody who asks for a report may wish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ortpkg.devices.profiles import MachineProfile
from ortpkg.documents.frozen import EMPTY

if TYPE_CHECKING:
    from ortpkg.measuring.measured_candidates import CandidateResult


class DrawnGraphs(StrEnum):
    """Whose graphs a report draws."""

    CHOSEN = "chosen"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWishes:
    """What a report shows beside what the package says.

    Attributes:
        profiles: other machines to select for: names of built-in profiles, files, or profiles.
        graphs: of the variants chosen here, of all that run here, or of none.
        backend: what plans the graphs; None for the embedded engine where it runs the variant, else
            what does.
        eps: execution providers to divide the graphs among, in this order, in place of the one that
            selection found.
        sizes: of symbolic dimensions, for the memory that plans take; each is 1 where it has none.
        results: what was measured for this report.
        verifies_all: hash every file, however large.
    """

    profiles: Sequence[str | MachineProfile] = ()
    graphs: DrawnGraphs = DrawnGraphs.CHOSEN
    backend: str | None = None
    eps: Sequence[str] = ()
    sizes: Mapping[str, int] = EMPTY
    results: Sequence[CandidateResult] = ()
    verifies_all: bool = False
