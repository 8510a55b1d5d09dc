"""What a report is about, as the façade of a package hands it in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.documents.frozen import EMPTY
from ortpkg.package.package_info import PackageInfo
from ortpkg.selection.verdict import Selection

if TYPE_CHECKING:
    from ortpkg.errors import Finding
    from ortpkg.measuring.measured_candidates import CandidateResult
    from ortpkg.measuring.record_store import RecordedState
    from ortpkg.session.inference_session import InferenceSession
    from ortpkg.session.session_plan import SessionPlan

#: Of a component, the first so many variants are shown, and judged on other machines.
MOST_VARIANTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSelections:
    """What is selected of a package on one machine.

    Attributes:
        name: the machine's, in words; "this machine" for the one that makes the report.
        is_here: whether it is that one.
        selections: component → selection, of every component. Those of other machines may have
            verdicts on no more variants than are shown, and on the winner.
    """

    name: str
    is_here: bool
    selections: Mapping[str, Selection]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """One variant's model as a session has planned it, or why there is no session.

    Attributes:
        component_name, variant_name: which; the second is "" where no variant could be chosen.
        planned_for: in words, whose plan it is: "the embedded engine", "what ortpkg run takes".
        session: ready to run, and never run; None where there is none.
        plan: what the session planned; None where there is none.
        sizes: of the symbolic dimensions of its inputs, for the plan's figures in bytes: as they
            were asked for, 1 for each that was not.
        model_path: the file that the session read; None where there is no session.
        obstacle: why there is none, a sentence; "" where there is one.
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
        """Component model and variant, as headings have it."""
        both = (self.component_name, self.variant_name)
        return " / ".join(each for each in both if each)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSubject:
    """Everything that a report is made of.

    Attributes:
        info: the package.
        title: what its user calls it.
        machines: this machine first, then those that were asked for.
        models: of each component what was planned, in execution order.
        unplanned_count: how many more models would have been, were a page not bounded.
        findings: those of ``ortpkg validate``.
        results: what was measured for this report; empty where nothing was, and what ``ortpkg
            bench`` recorded here is shown.
        recorded: what ``ortpkg bench`` recorded of it on this machine; None for nothing.
        trust: whether the package's publisher is trusted.
        verifies_all: hash every file, however large.
        made_at: when, with a time zone.
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
        """The machine that makes the report."""
        return self.machines[0]
