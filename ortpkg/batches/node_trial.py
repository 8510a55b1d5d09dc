"""What a node says of a package before a batch: which variants it runs, what is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.batches.package_runner import ChosenVariant, ModelFacts, PackageRunner, PackageUse
from ortpkg.devices.hardware import DeviceType
from ortpkg.errors import OrtpkgError, PackageError
from ortpkg.host.memory import peak_memory_nbytes

#: What a worker takes beside a session that its plan says nothing of.
_PART_NBYTES = 128 << 20
#: Rows of the run that memory is planned for, before anybody knows how many there will be.
_PLANNED_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTrial:
    """One node, with what it would run.

    Attributes:
        node: its name, for users.
        node_id: its id in the cluster.
        cores: how many it has to give.
        chosen: what runs there, a value for each component.
        facts: what a job has to know of the package.
        errors: component → the largest error that is recorded there of what runs it; None where
            nothing is.
        batch_times: rows → seconds of a run, as recorded there; empty where nothing is.
        memory_nbytes: what one worker needs.
        notes: what a user should know.
        problem: why it cannot run the package; None where it can.
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
        """What a worker takes of the node beside cores: a GPU or an NPU, by Ray's names."""
        kinds = {each.device_type for each in self.chosen}
        return {kind.upper(): 1 for kind in (DeviceType.GPU, DeviceType.NPU) if kind in kinds}


def try_here(use: PackageUse, node: str, node_id: str = "", cores: float = 1) -> NodeTrial:
    """Opens the package here, chooses, makes a session, and says what came of it. Never raises."""
    try:
        runner = PackageRunner(use)
    except OrtpkgError as error:
        return NodeTrial(node=node, node_id=node_id, cores=cores, problem=error)
    return trial_of(runner, node, node_id, cores)


def trial_of(runner: PackageRunner, node: str, node_id: str = "", cores: float = 1) -> NodeTrial:
    """What a runner that has started here says."""
    return NodeTrial(
        node=node,
        node_id=node_id,
        cores=cores,
        chosen=runner.chosen,
        facts=runner.facts,
        errors=runner.recorded_errors(),
        batch_times=runner.recorded_batch_times(),
        memory_nbytes=memory_of(runner),
        notes=tuple(runner.notes),
    )


def memory_of(runner: PackageRunner) -> int:
    """What a worker needs: what this process holds now, its plan of a run, and the parts."""
    held = peak_memory_nbytes() or 0
    return held + runner.planned_nbytes(_PLANNED_ROWS) + _PART_NBYTES


def of_one_package(trials: Sequence[NodeTrial]) -> list[NodeTrial]:
    """The trials; nodes where the reference leads to other content than on the first are unusable.

    What has no digests.json is told by name and version alone: copies of it are not known again.
    """
    found: list[NodeTrial] = []
    first: NodeTrial | None = None
    for trial in trials:
        if trial.facts is not None and first is None:
            first = trial
        if first is None or trial.facts is None or _is_same(first.facts, trial.facts):
            found.append(trial)
            continue
        problem = PackageError(
            f"the reference leads to another package there than on {first.node}",
            path=Path(str(trial.facts.identity["name"])),
        )
        found.append(replace(trial, problem=problem))
    return found


def _is_same(one: ModelFacts | None, other: ModelFacts) -> bool:
    assert one is not None
    mine, theirs = one.identity, other.identity
    is_recorded = all(str(each["digest"]).startswith("sha256:") for each in (mine, theirs))
    keys = ("name", "version", *(("digest",) if is_recorded else ()))
    return all(mine[key] == theirs[key] for key in keys)


def usable(trials: Sequence[NodeTrial]) -> list[NodeTrial]:
    """The nodes that can run the package. Raises what the first one says where none can."""
    found = [each for each in trials if each.problem is None]
    if not found:
        problem = trials[0].problem
        assert problem is not None
        raise problem
    return found
