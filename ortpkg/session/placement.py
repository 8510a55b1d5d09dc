"""What ran where: nodes, weights and, with profiling, time on each EP of a loaded session.

onnxruntime and OpenVINO may give nodes to their CPU although another device was asked for; what
they tell of that stands here as entries of their own, marked as fallback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ortpkg.devices.hardware import EpDevice, HardwareDevice, hardware_label
from ortpkg.devices.implied_device_types import IMPLIED_DEVICE_TYPES
from ortpkg.engine.node_refusals import refusal_summary
from ortpkg.engine.partition import Partition
from ortpkg.engine.provider_answers import guard
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import unquoted
from ortpkg.providers.execution_provider import BackendPlacement, ExecutionProvider


@dataclass(frozen=True, slots=True, kw_only=True)
class EpPlacement:
    """What one execution provider runs of a session's model.

    Attributes:
        ep_name: ONNX Runtime's name.
        backend: what provides it: "embedded", "openvino", "onnxruntime", a plug-in's name.
        device: for people, e.g. "GPU (NVIDIA H200)" or "CPU"; "" where unknown.
        node_count: after basic optimizations, as the backend counts where it tells, else as the
            session does; 0 for an execution provider that was asked for and took none.
        weight_nbytes: of the constants that these nodes read; one that several of them read counts
            once.
        duration_s: what its nodes took in all runs so far; None without profiling, and where
            several share a fused node, whose time only the backend could divide.
        is_fallback: whether it runs what was meant for another: the CPU behind an EP or device that
            was asked for.
        reason: why it took none, or is a fallback, as far as known; untrusted text is escaped.
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
    """What runs where in a session.

    Attributes:
        entries: in order of priority, EPs that were asked for and took no node among them.
    """

    entries: tuple[EpPlacement, ...]

    @property
    def node_count(self) -> int:
        """Nodes of the model, on all execution providers together."""
        return sum(entry.node_count for entry in self.entries)

    @property
    def offload_percent(self) -> float:
        """How much of 100 nodes run where they were meant to, and not on a CPU that stood in.

        100 where there is no node.
        """
        total = self.node_count
        fallback = sum(entry.node_count for entry in self.entries if entry.is_fallback)
        return 100.0 * (total - fallback) / total if total else 100.0

    @property
    def idle_eps(self) -> tuple[EpPlacement, ...]:
        """Execution providers that were asked for and took no node."""
        return tuple(entry for entry in self.entries if entry.node_count == 0)

    def describe(self) -> str:
        """One line: "1 of 1 EPs: OpenVINOExecutionProvider (openvino, CPU): 12 of 12 nodes".

        With the size of the weights there.
        """
        total = self.node_count
        asked = {(entry.ep_name, entry.backend) for entry in self.entries}
        used = {
            (entry.ep_name, entry.backend)
            for entry in self.entries
            if entry.node_count or not total
        }
        parts = "; ".join(_describe(entry, total) for entry in self.entries)
        return f"{len(used)} of {len(asked)} EPs: {parts}"


def create_placement(
    providers: Sequence[ExecutionProvider],
    partitions: Sequence[Partition],
    durations_s: Mapping[tuple[str, str], float] | None = None,
) -> Placement:
    """Puts together what providers, partitioning and backends say.

    Args:
        providers: of the session, in order of priority.
        partitions: which of them took which nodes.
        durations_s: (provider, node name) → seconds; None without profiling.
    """
    unique = list(dict.fromkeys(providers))
    by_provider: dict[ExecutionProvider, list[Partition]] = {provider: [] for provider in unique}
    for partition in partitions:
        by_provider[_provider_of(partition, unique)].append(partition)
    entries: list[EpPlacement] = []
    for position, (provider, own) in enumerate(by_provider.items()):
        is_stand_in = position > 0 and _runs_nodes_itself(provider)
        if own or provider.is_requested or len(unique) == 1:
            with guard(provider, "say what it runs where"):
                entries += _entries_of(provider, own, durations_s, is_stand_in=is_stand_in)
    return Placement(entries=tuple(entries))


def _provider_of(partition: Partition, providers: Sequence[ExecutionProvider]) -> ExecutionProvider:
    """The provider of that name.

    Onnxruntime's CPU provider (it only fuses) has the name of the embedded one.
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
    """One entry for the provider, one for each other place where its backend runs nodes."""
    left = refusal_summary(partitions) if is_stand_in else ""
    itself = BackendPlacement(ep_name=provider.name, is_fallback=is_stand_in, reason=left)
    entries: dict[tuple[str, str, bool], EpPlacement] = {}
    for partition in partitions:
        places = list(
            provider.get_placement(partition.fused_node) if partition.fused_node else ()
        ) or [itself]
        counts = [
            len(partition.node_names) if place.node_count is None else place.node_count
            for place in places
        ]
        weights = _divide_weights(partition, places, counts)
        durations = _divide_duration(partition, counts, durations_s)
        for place, count, weight_nbytes, duration_s in zip(
            places, counts, weights, durations, strict=True
        ):
            entry = EpPlacement(
                ep_name=place.ep_name,
                backend=provider.backend,
                device=_device_label(provider, place),
                node_count=count,
                weight_nbytes=weight_nbytes,
                duration_s=duration_s,
                is_fallback=place.is_fallback,
                reason=place.reason,
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
    partition: Partition, places: Sequence[BackendPlacement], counts: Sequence[int]
) -> list[int]:
    """Bytes by place: of the nodes that it names.

    What no place names (merged nodes) goes to the one with most.
    """
    shares = [
        (
            sum(partition.weights_of.get(name, 0) for name in place.node_names)
            if len(places) > 1
            else 0
        )
        for place in places
    ]
    most = max(range(len(places)), key=lambda position: counts[position])
    shares[most] += max(partition.weight_nbytes - sum(shares), 0)
    return shares


def _divide_duration(
    partition: Partition, counts: Sequence[int], durations_s: Mapping[tuple[str, str], float] | None
) -> list[float | None]:
    """Seconds by place; None where several divide a fused node among them."""
    if durations_s is None:
        return [None] * len(counts)
    names = (partition.fused_node,) if partition.fused_node else partition.node_names
    spent_s = sum(durations_s.get((partition.provider, name), 0.0) for name in names)
    is_shared = sum(count > 0 for count in counts) > 1
    return [0.0 if not count else None if is_shared else spent_s for count in counts]


def _sum(first: EpPlacement, second: EpPlacement) -> EpPlacement:
    known = first.duration_s is not None and second.duration_s is not None
    return replace(
        first,
        node_count=first.node_count + second.node_count,
        weight_nbytes=first.weight_nbytes + second.weight_nbytes,
        duration_s=(first.duration_s or 0.0) + (second.duration_s or 0.0) if known else None,
        reason=first.reason or second.reason,
    )


def _device_label(provider: ExecutionProvider, place: BackendPlacement) -> str:
    """The hardware's label if it is known, else the backend's word, else what the name implies."""
    offered = _first_device(provider.get_ep_devices())
    kind = place.device.partition(".")[0].lower()
    if offered is not None and (
        kind == offered.type.value or (not kind and place.ep_name == provider.name)
    ):
        return hardware_label(offered)
    if place.device:
        return unquoted(place.device)
    implied = IMPLIED_DEVICE_TYPES.get(place.ep_name)
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
