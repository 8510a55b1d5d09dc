"""Wishes of a caller for a selection: the arguments of ``select`` as one frozen value.

They go from the command, or the keyword arguments of :meth:`~ortpkg.ModelPackage.select`, to
:mod:`ortpkg.selection.matching.request`, which checks them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.names import did_you_mean

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypedDict

    from ortpkg.machine.profiles import MachineProfile
    from ortpkg.runtime.providers.machine_offer import MachineOffer
    from ortpkg.selection.matching.decision_log import DecisionLog
    from ortpkg.selection.matching.provider_option_wishes import ProviderOptionWishes

    class SelectionKeywords(TypedDict, total=False):
        """The fields of :class:`SelectionWishes` as keyword arguments, for type checkers."""

        device: str | None
        ep: str | Sequence[str] | None
        backend: str
        policy: str
        variant: str | None
        provider_options: ProviderOptionWishes | None
        check_architecture: bool
        profile: str | Path | MachineProfile | None
        machine: MachineOffer | None
        log: DecisionLog | None
        max_memory: str | int | None
        max_size: str | int | None
        min_precision: str | None
        where: Mapping[str, Any] | Sequence[str] | None
        max_latency: str | float | None
        max_error: float | None
        strict_facts: bool
        include_absent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionWishes:
    """Criteria for choosing a variant; :meth:`~ortpkg.ModelPackage.select` explains each."""

    device: str | None = None
    ep: str | Sequence[str] | None = None
    backend: str = "auto"
    policy: str = "default"
    variant: str | None = None
    provider_options: ProviderOptionWishes | None = None
    check_architecture: bool = False
    profile: str | Path | MachineProfile | None = None
    machine: MachineOffer | None = None
    log: DecisionLog | None = None
    max_memory: str | int | None = None
    max_size: str | int | None = None
    min_precision: str | None = None
    where: Mapping[str, Any] | Sequence[str] | None = None
    max_latency: str | float | None = None
    max_error: float | None = None
    strict_facts: bool = False
    include_absent: bool = False

    def but(self, method: str, keywords: SelectionKeywords) -> SelectionWishes:
        """Return these wishes, with the keyword arguments of ``method`` in their place.

        Raises:
            TypeError: an unknown keyword argument, with Python's message for ``method``.
        """
        for name in keywords:
            if name not in self.__slots__:
                raise TypeError(
                    f"{method}() got an unexpected keyword argument"
                    f" {quoted(name)}{did_you_mean(name, self.__slots__)}"
                )
        return replace(self, **keywords) if keywords else self


ANY_VARIANT = SelectionWishes()
