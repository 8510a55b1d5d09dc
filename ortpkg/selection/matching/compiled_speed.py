"""Judge whether a compiled variant is faster than its plain one: by measurements, else by share.

A variant that an execution provider rates as optimal may still be slower than the plain model on a
fast library, if the code covers only a part of the model, or if the library is better. Records of
``bench`` decide; without them, the share of the work that the code covers. No file is read. Speeds
are small integers, so that the order of ranks stays total.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.quantities import duration_text
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.derived_variants import derivation_of
from ortpkg.package.package_info import VariantInfo
from ortpkg.selection.matching.ranking import Rank, backend_preference
from ortpkg.selection.matching.variant_facts import calls_of, share_of_work

if TYPE_CHECKING:
    from ortpkg.selection.matching.measurements import Measurement

#: Least share of the work that code must cover for a compiled variant to come before a plain one
#: that a library runs whole.
LEAST_SHARE = 0.9
#: Backends up to this one run a plain model whole: OpenVINO, onnxruntime, plug-ins.
_WHOLE = backend_preference("a plug-in")

_FASTEST, _FASTER, _USUAL, _SLOWER = range(4)


class Speed(NamedTuple):
    """Position of a variant on an EP device among compiled and plain ones; less is better.

    Attributes:
        rank: the position.
        reason: reason why it comes after others, as the end of a sentence; "" if it does not.
    """

    rank: int = _USUAL
    reason: str = ""


USUAL = Speed()

#: (position of the variant, position of the EP device) → its speed; missing ones are USUAL.
Speeds = Mapping[tuple[int, int], Speed]


def compiled_speeds(
    variants: Sequence[VariantInfo],
    compiled: Collection[int],
    ranks: Iterable[Rank],
    ep_devices: Sequence[EpDevice],
    measurements: Mapping[tuple[str, int], Measurement],
) -> Speeds:
    """Return the speeds of compiled variants, compared with plain ones on the same kind of device.

    Args:
        variants: variants of the component, in declaration order.
        compiled: positions of the variants that state what they were compiled for.
        ranks: ranks of matching variants by the usual criteria.
        ep_devices: EP devices in the policy's order.
        measurements: valid measurements of this machine.
    """
    usual = sorted(ranks)
    plain: dict[tuple[int, int], list[Rank]] = {}
    for rank in usual:
        if rank.declared_at not in compiled:
            plain.setdefault((rank.device, rank.declared_at), []).append(rank)
    speeds: dict[tuple[int, int], Speed] = {}
    faster: dict[int, list[tuple[tuple[int, int], Measurement]]] = {}
    for rank in usual if plain else ():
        if rank.declared_at not in compiled:
            continue
        variant = variants[rank.declared_at]
        rivals = _rivals(variant, rank, variants, plain)
        if not rivals:
            continue
        rank_key = rank.declared_at, rank.ep_device_at
        rival = variants[rivals[0].declared_at]
        measurement = _accurate(measurements.get((variant.name, rank.ep_device_at)))
        other = _fastest(
            measurements.get((rival.name, candidate.ep_device_at)) for candidate in rivals
        )
        if measurement is not None and other is not None:
            speeds[rank_key] = _measured(measurement, other, rival)
            if speeds[rank_key].rank == _FASTER:
                faster.setdefault(rank.device, []).append((rank_key, measurement))
        else:
            backends = [
                ep_devices[candidate.ep_device_at].backend for candidate in (rank, rivals[0])
            ]
            speeds[rank_key] = _by_share(variant, backends[0], rival, backends[1])
    for group in faster.values():
        fastest = min((candidate for _, candidate in group), key=lambda candidate: candidate.p50_s)
        for rank_key, measurement in group:
            if measurement.p50_s <= max(fastest.p50_s, fastest.highest_s or 0.0):
                speeds[rank_key] = Speed(rank=_FASTEST)
    return speeds


def _rivals(
    variant: VariantInfo,
    rank: Rank,
    variants: Sequence[VariantInfo],
    plain: Mapping[tuple[int, int], list[Rank]],
) -> list[Rank]:
    """Return the ranks, on the same kind of device, of the plain variant to compare with.

    That is the one that the variant was made from; if it does not say, the first plain one.
    """
    derivation = derivation_of(variant)
    for (device, declared_at), ranks in plain.items():
        is_source = derivation is None or variants[declared_at].name == derivation.variant
        if device == rank.device and is_source:
            return ranks
    return []


def _measured(compiled: Measurement, plain: Measurement, rival: VariantInfo) -> Speed:
    if compiled.p50_s <= max(plain.p50_s, plain.highest_s or 0.0):
        # If the two cannot be told apart, the usual order stays.
        is_clear = (compiled.highest_s or compiled.p50_s) < (plain.lowest_s or plain.p50_s)
        return Speed(rank=_FASTER) if is_clear else USUAL
    return Speed(
        rank=_SLOWER,
        reason=(
            f"measured here, it is slower than plain variant {quoted(rival.name)}: median"
            f" {duration_text(compiled.p50_s)}, and {duration_text(plain.p50_s)} there"
        ),
    )


def _by_share(variant: VariantInfo, backend: str, rival: VariantInfo, rival_backend: str) -> Speed:
    """Judge a compiled variant by its share of code, beside a plain one of another backend."""
    share = share_of_work(variant.metadata)
    is_whole = rival_backend != backend and backend_preference(rival_backend) <= _WHOLE
    calls = calls_of(variant.metadata)
    if share is None or is_mostly_compiled(share, calls) or not is_whole:
        return USUAL
    return Speed(
        rank=_SLOWER,
        reason=(
            f"its code covers {coverage_text(share, calls)}, and plain variant"
            f" {quoted(rival.name)} runs on {rival_backend} here; ortpkg bench measures which is"
            " faster"
        ),
    )


def is_mostly_compiled(share: float, calls: float) -> bool:
    """Return True if code that covers ``share`` of the work may come before a plain model.

    ``calls`` between pieces of code and other nodes count as work that is not covered.
    """
    return share / (1 + calls) >= LEAST_SHARE


def coverage_text(share: float, calls: float) -> str:
    """Return a text on the share that code covers, with the cost of calls if that matters."""
    text = f"{share:.0%} of the work"
    if share < LEAST_SHARE or calls <= 0:
        return text
    return f"{text} in pieces, and calls of them and of the nodes between them add {calls:.0%}"


def _fastest(measurements: Iterable[Measurement | None]) -> Measurement | None:
    accurate = [
        measurement for measurement in map(_accurate, measurements) if measurement is not None
    ]
    return min(accurate, key=lambda measurement: measurement.p50_s, default=None)


def _accurate(measurement: Measurement | None) -> Measurement | None:
    """Return the measurement, unless its outputs were wrong."""
    return None if measurement is None or measurement.is_accurate is False else measurement


def speed_reason(own: str, which: str) -> str:
    """Return a sentence on why a variant comes after ``which``.

    ``own``: the variant's own reason, or "".
    """
    return f"it can run, but {own or f'{which} is compiled, and was measured here as faster'}"
