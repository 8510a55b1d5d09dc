"""Trial of a package on a node before a batch: the variants it would run, and facts about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.foundations.errors import OrtpkgError, PackageError
from ortpkg.foundations.host.memory import peak_memory_nbytes
from ortpkg.machine.hardware import DeviceType
from ortpkg.scale.batches.package_runner import ChosenVariant, ModelFacts, PackageRunner, PackageUse

#: Memory of a worker besides its session, which the plan does not include.
_PART_NBYTES = 128 << 20
#: Rows for which memory is planned before the batch size is known.
_PLANNED_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTrial:
    """One node, and what it would run.

    Attributes:
        node: Name of the node, for users.
        node_id: Id of the node in the cluster.
        cores: Number of cores that it offers.
        chosen: Selected variants, one for each component.
        facts: Facts of the package for a job.
        errors: Largest recorded error of each component's variant there, or None.
        batch_times: Seconds of a run by number of rows, as recorded there; empty without records.
        memory_nbytes: Memory of one worker.
        notes: Notes for the user.
        problem: Reason why it cannot run the package, or None.
    """

    node: str
    node_id: str = ""
    cores: float = 1
    chosen: tuple[ChosenVariant, ...] = ()
    facts: ModelFacts | None = None
    errors: Mapping[str, float | None] | None = None
    batch_times: Mapping[int, float] | None = None
    memory_nbytes: int = 0
    notes: tuple[str, ...] = ()
    problem: OrtpkgError | None = None

    @property
    def resources(self) -> dict[str, float]:
        """Resources of a worker besides cores: a GPU or an NPU, by Ray's names."""
        kinds = {variant.device_type for variant in self.chosen}
        return {kind.upper(): 1 for kind in (DeviceType.GPU, DeviceType.NPU) if kind in kinds}


def try_here(use: PackageUse, node: str, node_id: str = "", cores: float = 1) -> NodeTrial:
    """Open the package here, select variants, create a session, and return the result.

    Never raises.
    """
    try:
        runner = PackageRunner(use)
    except OrtpkgError as error:
        return NodeTrial(node=node, node_id=node_id, cores=cores, problem=error)
    return make_trial(runner, node, node_id, cores)


def make_trial(runner: PackageRunner, node: str, node_id: str = "", cores: float = 1) -> NodeTrial:
    """Return the trial of a runner that has started here."""
    return NodeTrial(
        node=node,
        node_id=node_id,
        cores=cores,
        chosen=runner.chosen,
        facts=runner.facts,
        errors=runner.recorded_errors(),
        batch_times=runner.recorded_batch_times(),
        memory_nbytes=worker_nbytes(runner),
        notes=tuple(runner.notes),
    )


def worker_nbytes(runner: PackageRunner) -> int:
    """Return the memory of a worker: this process now, its plan of a run, and the parts."""
    held = peak_memory_nbytes() or 0
    return held + runner.planned_nbytes(_PLANNED_ROWS) + _PART_NBYTES


def mark_other_packages(trials: Sequence[NodeTrial]) -> list[NodeTrial]:
    """Return the trials, with a problem on nodes where the reference leads to another package.

    The first usable node decides. Without a digests.json only name and version are compared.
    """
    compared: list[NodeTrial] = []
    first: NodeTrial | None = None
    for trial in trials:
        if trial.facts is not None and first is None:
            first = trial
        if first is None or trial.facts is None or _is_same(first.facts, trial.facts):
            compared.append(trial)
            continue
        problem = PackageError(
            f"the reference leads to another package there than on {first.node}",
            path=Path(str(trial.facts.identity["name"])),
        )
        compared.append(replace(trial, problem=problem))
    return compared


def _is_same(one: ModelFacts | None, other: ModelFacts) -> bool:
    assert one is not None
    mine, theirs = one.identity, other.identity
    is_recorded = all(str(identity["digest"]).startswith("sha256:") for identity in (mine, theirs))
    keys = ("name", "version", *(("digest",) if is_recorded else ()))
    return all(mine[key] == theirs[key] for key in keys)


def usable_trials(trials: Sequence[NodeTrial]) -> list[NodeTrial]:
    """Return the trials of nodes that can run the package.

    Raises:
        OrtpkgError: No node can; the first node's problem.
    """
    working = [trial for trial in trials if trial.problem is None]
    if not working:
        problem = trials[0].problem
        assert problem is not None
        raise problem
    return working
