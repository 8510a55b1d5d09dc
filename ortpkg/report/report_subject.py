"""Subject of a report, as the façade of a package passes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.package.package_info import PackageInfo
from ortpkg.selection.matching.verdict import Selection

if TYPE_CHECKING:
    from ortpkg.foundations.errors import Finding
    from ortpkg.runtime.session.inference_session import InferenceSession
    from ortpkg.runtime.session.session_plan import SessionPlan
    from ortpkg.selection.measuring.measured_candidates import CandidateResult
    from ortpkg.selection.measuring.record_store import RecordedState

#: Most variants of a component that are shown, and judged on other machines.
MOST_VARIANTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSelections:
    """Selections of a package on one machine.

    Attributes:
        name: Name of the machine in words; "this machine" for the one that makes the report.
        is_here: True for that machine.
        selections: Selection of every component by its name. Those of other machines may have
            verdicts only on the variants that are shown, and on the winner.
    """

    name: str
    is_here: bool
    selections: Mapping[str, Selection]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """Model of one variant as a session planned it, or the reason why there is no session.

    Attributes:
        component_name, variant_name: Names; the second is "" if no variant could be selected.
        planned_for: Owner of the plan in words: "the embedded engine", "what ortpkg run takes".
        session: Session that is ready and never run, or None.
        plan: Plan of the session, or None.
        sizes: Sizes of symbolic dimensions of its inputs, for figures in bytes: the requested ones,
            1 for others.
        model_path: File that the session read, or None without a session.
        obstacle: Sentence why there is no session, or "".
    """

    component_name: str
    variant_name: str
    planned_for: str
    session: InferenceSession | None = None
    plan: SessionPlan | None = None
    sizes: Mapping[str, int] = EMPTY
    model_path: Path | None = None
    obstacle: str = ""

    @property
    def title(self) -> str:
        """Component model and variant, as headings show them."""
        both = (self.component_name, self.variant_name)
        return " / ".join(name for name in both if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSubject:
    """Everything that a report is made of.

    Attributes:
        info: The package.
        title: Name that the user gave it.
        machines: This machine first, then the requested ones.
        models: Planned models of each component, in execution order.
        unplanned_count: Number of models that were not planned to limit the page.
        findings: Findings of ``ortpkg validate``.
        results: Measurements for this report; if empty, those that ``ortpkg bench`` recorded here
            are shown.
        recorded: Records of ``ortpkg bench`` on this machine, or None.
        trust: True if the package's publisher is trusted.
        verifies_all: True to hash every file, however large.
        made_at: Time of the report, with a time zone.
    """

    info: PackageInfo
    title: str
    machines: tuple[MachineSelections, ...]
    models: tuple[PlannedModel, ...]
    findings: tuple[Finding, ...]
    unplanned_count: int = 0
    results: Sequence[CandidateResult] = ()
    recorded: RecordedState | None = None
    trust: bool = False
    verifies_all: bool = False
    made_at: datetime

    @property
    def here(self) -> MachineSelections:
        """Machine that makes the report."""
        return self.machines[0]
