"""Placement of a loaded session: nodes, weights and, with profiling, time on each EP.

onnxruntime and OpenVINO may give nodes to their CPU although another device was asked for; what
they report about that becomes an entry of its own, marked as fallback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import unquoted
from ortpkg.machine.hardware import EpDevice, HardwareDevice, hardware_label
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES
from ortpkg.runtime.engine.node_refusals import refusal_summary
from ortpkg.runtime.engine.partition import Partition
from ortpkg.runtime.engine.provider_answers import guard
from ortpkg.runtime.providers.execution_provider import BackendPlacement, ExecutionProvider


@dataclass(frozen=True, slots=True, kw_only=True)
class EpPlacement:
    """Part of a session's model that one execution provider runs.

    Attributes:
        ep_name: ONNX Runtime's name of the execution provider.
        backend: its implementation: "embedded", "openvino", "onnxruntime", a plug-in's name.
        device: text for people, e.g. "GPU (NVIDIA H200)" or "CPU"; "" if unknown.
        node_count: number of nodes after basic optimizations, as the backend reports it, else as
            the session counts; 0 for a requested execution provider that took none.
        weight_nbytes: bytes of the constants that these nodes read; each counts once.
        duration_s: seconds that its nodes took in all runs so far; None without profiling, or if
            several share a fused node, whose time only the backend could divide.
        is_fallback: True if it runs nodes that were meant for another: the CPU behind a requested
            EP or device.
        reason: reason why it took no node, or is a fallback, as far as known; untrusted text is
            escaped.
    """

    ep_name: str
    backend: str
    device: str
    node_count: int
    weight_nbytes: int
    duration_s: float | None = None
    is_fallback: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Assignment of a session's nodes to execution providers.

    Attributes:
        entries: one per EP, in order of priority; includes requested EPs that took no node.
    """

    entries: tuple[EpPlacement, ...]

    @property
    def node_count(self) -> int:
        """Number of nodes of the model, on all execution providers together."""
        return sum(entry.node_count for entry in self.entries)

    @property
    def offload_percent(self) -> float:
        """Percentage of nodes that run where they were meant to, not on a CPU as a fallback.

        100 for a model without nodes.
        """
        total = self.node_count
        fallback = sum(entry.node_count for entry in self.entries if entry.is_fallback)
        return 100.0 * (total - fallback) / total if total else 100.0

    @property
    def idle_eps(self) -> tuple[EpPlacement, ...]:
        """Requested execution providers that took no node."""
        return tuple(entry for entry in self.entries if entry.node_count == 0)

    def describe(self) -> str:
        """Return one line, with the size of the weights on each EP.

        Example: "1 of 1 EPs: OpenVINOExecutionProvider (openvino, CPU): 12 of 12 nodes".
        """
        total = self.node_count
        all_eps = {(entry.ep_name, entry.backend) for entry in self.entries}
        used = {
            (entry.ep_name, entry.backend)
            for entry in self.entries
            if entry.node_count or not total
        }
        parts = "; ".join(_describe(entry, total) for entry in self.entries)
        return f"{len(used)} of {len(all_eps)} EPs: {parts}"


def create_placement(
    providers: Sequence[ExecutionProvider],
    partitions: Sequence[Partition],
    durations_s: Mapping[tuple[str, str], float] | None = None,
) -> Placement:
    """Combine the reports of providers, partitioning and backends.

    Args:
        providers: providers of the session, in order of priority.
        partitions: partitions of the model.
        durations_s: (provider, node name) → seconds; None without profiling.
    """
    unique = list(dict.fromkeys(providers))
    by_provider: dict[ExecutionProvider, list[Partition]] = {provider: [] for provider in unique}
    for partition in partitions:
        by_provider[_provider_of(partition, unique)].append(partition)
    entries: list[EpPlacement] = []
    for position, (provider, owned) in enumerate(by_provider.items()):
        is_stand_in = position > 0 and _runs_nodes_itself(provider)
        if owned or provider.is_requested or len(unique) == 1:
            with guard(provider, "say what it runs where"):
                entries += _entries_of(provider, owned, durations_s, is_stand_in=is_stand_in)
    return Placement(entries=tuple(entries))


def _provider_of(partition: Partition, providers: Sequence[ExecutionProvider]) -> ExecutionProvider:
    """Return the provider that runs a partition.

    Onnxruntime's CPU provider, which only fuses, has the same name as the embedded one.
    """
    named = [provider for provider in providers if provider.name == partition.provider]
    fits = [
        provider for provider in named if _runs_nodes_itself(provider) != bool(partition.fused_node)
    ]
    return (fits or named)[0]


def _runs_nodes_itself(provider: ExecutionProvider) -> bool:
    return provider.name == CPU_EP and provider.kernel_registry is not None


def _entries_of(
    provider: ExecutionProvider,
    partitions: Sequence[Partition],
    durations_s: Mapping[tuple[str, str], float] | None,
    *,
    is_stand_in: bool,
) -> list[EpPlacement]:
    """Return an entry for the provider, and one for each other device its backend uses."""
    refusal = refusal_summary(partitions) if is_stand_in else ""
    itself = BackendPlacement(ep_name=provider.name, is_fallback=is_stand_in, reason=refusal)
    entries: dict[tuple[str, str, bool], EpPlacement] = {}
    for partition in partitions:
        placements = list(
            provider.get_placement(partition.fused_node) if partition.fused_node else ()
        ) or [itself]
        counts = [
            len(partition.node_names) if placement.node_count is None else placement.node_count
            for placement in placements
        ]
        weights = _divide_weights(partition, placements, counts)
        durations = _divide_duration(partition, counts, durations_s)
        for placement, count, weight_nbytes, duration_s in zip(
            placements, counts, weights, durations, strict=True
        ):
            entry = EpPlacement(
                ep_name=placement.ep_name,
                backend=provider.backend,
                device=_device_label(provider, placement),
                node_count=count,
                weight_nbytes=weight_nbytes,
                duration_s=duration_s,
                is_fallback=placement.is_fallback,
                reason=placement.reason,
            )
            key = (entry.ep_name, entry.device, entry.is_fallback)
            entries[key] = _sum(entries[key], entry) if key in entries else entry
    if entries:
        return list(entries.values())
    return [
        EpPlacement(
            ep_name=provider.name,
            backend=provider.backend,
            device=_device_label(provider, itself),
            node_count=0,
            weight_nbytes=0,
            duration_s=None if durations_s is None else 0.0,
            reason=provider.get_refusal(),
        )
    ]


def _divide_weights(
    partition: Partition, placements: Sequence[BackendPlacement], counts: Sequence[int]
) -> list[int]:
    """Return the weight bytes of each placement: those of the nodes that it names.

    Weights of nodes that none names (merged nodes) go to the placement with most nodes.
    """
    shares = [
        (
            sum(partition.weights_of.get(name, 0) for name in placement.node_names)
            if len(placements) > 1
            else 0
        )
        for placement in placements
    ]
    most = max(range(len(placements)), key=lambda position: counts[position])
    shares[most] += max(partition.weight_nbytes - sum(shares), 0)
    return shares


def _divide_duration(
    partition: Partition, counts: Sequence[int], durations_s: Mapping[tuple[str, str], float] | None
) -> list[float | None]:
    """Return the seconds of each placement; None if several divide a fused node."""
    if durations_s is None:
        return [None] * len(counts)
    names = (partition.fused_node,) if partition.fused_node else partition.node_names
    spent_s = sum(durations_s.get((partition.provider, name), 0.0) for name in names)
    is_shared = sum(count > 0 for count in counts) > 1
    return [0.0 if not count else None if is_shared else spent_s for count in counts]


def _sum(first: EpPlacement, second: EpPlacement) -> EpPlacement:
    have_durations = first.duration_s is not None and second.duration_s is not None
    return replace(
        first,
        node_count=first.node_count + second.node_count,
        weight_nbytes=first.weight_nbytes + second.weight_nbytes,
        duration_s=(first.duration_s or 0.0) + (second.duration_s or 0.0)
        if have_durations
        else None,
        reason=first.reason or second.reason,
    )


def _device_label(provider: ExecutionProvider, placement: BackendPlacement) -> str:
    """Return the hardware's label, else the backend's word, else the type that the name implies."""
    offered = _first_device(provider.get_ep_devices())
    kind = placement.device.partition(".")[0].lower()
    if offered is not None and (
        kind == offered.type.value or (not kind and placement.ep_name == provider.name)
    ):
        return hardware_label(offered)
    if placement.device:
        return unquoted(placement.device)
    implied = IMPLIED_DEVICE_TYPES.get(placement.ep_name)
    return implied.value.upper() if implied is not None else ""


def _first_device(ep_devices: Sequence[EpDevice]) -> HardwareDevice | None:
    return ep_devices[0].device if ep_devices else None


def _describe(entry: EpPlacement, total: int) -> str:
    where = ", ".join(part for part in (entry.backend, entry.device) if part)
    name = f"{entry.ep_name} ({where})" if where else entry.ep_name
    reason = f" ({entry.reason})" if entry.reason else ""
    if not entry.node_count and total:
        return f"{name}: no node{reason}"
    spent = "" if entry.duration_s is None else f", {_duration_text(entry.duration_s)}"
    instead = ", in place of what was asked for" if entry.is_fallback else ""
    return (
        f"{name}: {entry.node_count} of {total} nodes, {_nbytes_text(entry.weight_nbytes)} of"
        f" weights{spent}{instead}{reason}"
    )


def _nbytes_text(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _duration_text(duration_s: float) -> str:
    return f"{duration_s * 1000:.3g} ms" if duration_s < 1 else f"{duration_s:.3g} s"
