"""What reports are made of, without a machine that selects and sessions that plan."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ortpkg.package.reader import open_package
from ortpkg.report.report_subject import PlannedModel, ReportSubject
from ortpkg.runtime.session.session_plan import GraphPlan, SessionPlan


def subject_of(root: Path, *models: PlannedModel) -> ReportSubject:
    """Of the package at ``root``, with these models and nothing else."""
    return ReportSubject(
        info=open_package(root),
        title="package",
        machines=(),
        models=models,
        findings=(),
        made_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def planned_model(graph: GraphPlan, *, symbols: tuple[str, ...] = ()) -> PlannedModel:
    """A model with that plan; its providers are those of the steps."""
    return PlannedModel(
        component_name="component",
        variant_name="variant",
        planned_for="a test",
        plan=SessionPlan(
            providers=tuple(dict.fromkeys(node.provider for node in graph.nodes)),
            partitions=(),
            graph=graph,
            symbolic_dimensions=symbols,
        ),
    )
