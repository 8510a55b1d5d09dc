"""What a caller wishes of a selection, in his words: the keyword arguments of
:meth:`~ortpkg.ModelPackage.select`, from the command to where :mod:`ortpkg.selection.request`
checks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ortpkg.errors import UsageError, quoted
from ortpkg.names import did_you_mean
from ortpkg.selection.wished_limits import LimitWishes

if TYPE_CHECKING:
    from pathlib import Path

    from ortpkg.devices.profiles import MachineProfile
    from ortpkg.selection.decision_log import DecisionLog
    from ortpkg.selection.provider_option_wishes import ProviderOptionWishes


class PlainWishes(LimitWishes, total=False):
    """What a variant is chosen by, but for EP and backend.

    :meth:`~ortpkg.ModelPackage.select` explains each.
    """

    device: str | None
    policy: str
    variant: str | None
    provider_options: ProviderOptionWishes | None
    check_architecture: bool
    profile: str | Path | MachineProfile | None
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


def check_texts(**wishes: object) -> None:
    """Raises UsageError for the first of ``wishes`` that is no text, by its name."""
    for name, wish in wishes.items():
        if not isinstance(wish, str):
            raise UsageError(f"{name} is a text, not {quoted(wish)}")


def wished_eps(ep: str | Sequence[str] | None) -> list[str]:
    """The EPs that a caller names: one, several, or none. Raises UsageError for what is no text."""
    names = [ep] if isinstance(ep, str) else ep or ()
    if not isinstance(names, Sequence):
        raise UsageError(f"ep is a text, or several in a list, not {quoted(ep)}")
    for each in names:
        check_texts(ep=each)
    return list(names)


def check_wishes(method: str, wishes: Iterable[str], kind: type[LimitWishes]) -> None:
    """Raises TypeError, as Python would for ``method``, for a keyword argument that is none of
    ``kind``.
    """
    known = kind.__annotations__
    for name in wishes:
        if name not in known:
            raise TypeError(
                f"{method}() got an unexpected keyword argument"
                f" {quoted(name)}{did_you_mean(name, known)}"
            )
