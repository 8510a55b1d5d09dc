"""What was measured of a package is what partitioning by cost goes by in its sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

import ortpkg
from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.runtime.providers.machine_offer import this_machine
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.session_plan import SessionPlan
from ortpkg.selection.matching.measurements import Measurement, device_key
from ortpkg.selection.measuring.record_store import write_records
from tests.measuring.conftest import scale_model

VARIANT = "any"
COST = {"ortpkg.partition_policy": "cost"}


@pytest.fixture
def package(tmp_path: Path) -> ortpkg.ModelPackage:
    """A package with one variant, for any execution provider."""
    root = tmp_path / "scale.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant(model=scale_model(tmp_path / "m.onnx"), name=VARIANT)])
    return ortpkg.ModelPackage(root)


def record(package: ortpkg.ModelPackage, *, openvino_s: float, cpu_s: float) -> None:
    """Writes what ``ortpkg bench`` would, had it measured these times."""
    offer = this_machine(named={OPENVINO_EP})
    places = {
        (each.ep_name, each.backend): device_key(each, offer.ep_devices)
        for each in offer.ep_devices
    }
    times = {(OPENVINO_EP, "openvino"): openvino_s, (CPU_EP, "embedded"): cpu_s}
    measured = [
        Measurement(
            component_name=package.component_models[0].name,
            variant_name=VARIANT,
            ep_name=ep_name,
            backend=backend,
            device=places[ep_name, backend],
            p50_s=time_s,
            p95_s=time_s,
            throughput_per_s=1 / time_s,
            cold_start_s=time_s,
            first_run_s=time_s,
        )
        for (ep_name, backend), time_s in times.items()
    ]
    assert write_records(package.info, offer, measured) == ""


def plan_of(package: ortpkg.ModelPackage, **entries: str) -> SessionPlan:
    options = SessionOptions()
    for key, value in {**COST, **entries}.items():
        options.add_session_config_entry(key.replace("__", "."), value)
    chosen = package.best_variant(backend="openvino")
    with chosen.create_session(options, backend="openvino") as session:
        return session.get_plan()


@pytest.mark.requirement("M03")
@pytest.mark.parametrize(("openvino_s", "winner"), [(0.001, OPENVINO_EP), (9.0, CPU_EP)])
def test_measured_times_of_a_variant_decide_who_runs_its_nodes(
    package: ortpkg.ModelPackage, openvino_s: float, winner: str
) -> None:
    record(package, openvino_s=openvino_s, cpu_s=0.5)
    (choice,) = plan_of(package).choices
    assert choice.sources == {OPENVINO_EP: "measured", CPU_EP: "measured"}
    assert list(choice.cost.node_counts) == [winner]
    assert choice.first_come.compute_s == pytest.approx(openvino_s)


def test_stated_costs_come_before_measured_ones(package: ortpkg.ModelPackage) -> None:
    record(package, openvino_s=9.0, cpu_s=0.5)
    (choice,) = plan_of(
        package, ortpkg__partition_costs='{"providers": {"openvino": {"seconds_per_operation": 0}}}'
    ).choices
    assert choice.sources[OPENVINO_EP] == "stated"


def test_without_records_costs_are_assumed(package: ortpkg.ModelPackage) -> None:
    (choice,) = plan_of(package).choices
    assert choice.sources == {OPENVINO_EP: "assumed", CPU_EP: "assumed"}
