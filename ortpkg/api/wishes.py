"""The keyword arguments of :meth:`~ortpkg.ModelPackage.select`, for the methods that hand them on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ortpkg.errors import quoted
from ortpkg.names import did_you_mean
from ortpkg.selection.limits import LimitWishes

if TYPE_CHECKING:
    from ortpkg.api.policy_pipeline import Profile
    from ortpkg.selection.decision_log import DecisionLog
    from ortpkg.selection.provider_option_wishes import ProviderOptionWishes


class PlainWishes(LimitWishes, total=False):
    """What a variant is chosen by, but for EP and backend; :meth:`~ortpkg.ModelPackage.select` explains each."""

    device: str | None
    policy: str
    variant: str | None
    provider_options: ProviderOptionWishes | None
    check_architecture: bool
    profile: Profile | None
    log: DecisionLog | None


class VariantWishes(PlainWishes, total=False):
    """What a variant is chosen by, but for the backend."""

    ep: str | Sequence[str] | None


class ComparisonWishes(PlainWishes, total=False):
    """What a variant is chosen by, but for the EP."""

    backend: str


class SelectionWishes(VariantWishes, total=False):
    """What a variant is chosen by."""

    backend: str


def check_wishes(method: str, wishes: Iterable[str], kind: type[LimitWishes]) -> None:
    """Raises TypeError, as Python would for ``method``, for a keyword argument that is none of ``kind``."""
    known = kind.__annotations__
    for name in wishes:
        if name not in known:
            raise TypeError(f"{method}() got an unexpected keyword argument {quoted(name)}{did_you_mean(name, known)}")
