"""Options that choose a variant, in groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ortpkg.cli.parameters import (
    BackendOption,
    ComponentOption,
    DeviceOption,
    EpOption,
    PolicyOption,
    VariantOption,
    parse_options,
)
from ortpkg.selection.matching.wishes import SelectionWishes


@dataclass(frozen=True)
class VariantFilter:
    """Options that say which variants of a package are meant."""

    component: ComponentOption = None
    variant: VariantOption = None
    ep: EpOption = None
    device: DeviceOption = None


@dataclass(frozen=True)
class VariantChoice(VariantFilter):
    """Options that choose the best variant of a package for this machine."""

    backend: BackendOption = "auto"
    policy: PolicyOption = "default"

    def wishes(self, provider_options: Iterable[str] | None = None) -> SelectionWishes:
        """Return the wishes for a selection, with ``KEY=VALUE`` texts of --provider-option."""
        return SelectionWishes(
            variant=self.variant,
            device=self.device,
            ep=self.ep,
            backend=self.backend,
            policy=self.policy,
            provider_options=parse_options("--provider-option", provider_options),
        )
