"""Comparison of ortpkg's choice with those of onnxruntime's releases, for publishers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortpkg.api.model_package import ModelPackage
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.machine.policies import RELEASE_POLICIES
from ortpkg.selection.matching.verdict import Selection
from ortpkg.selection.matching.wishes import ANY_VARIANT, SelectionWishes

if TYPE_CHECKING:
    from typing import Unpack

    from ortpkg.selection.matching.wishes import SelectionKeywords


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedChoice:
    """One choice of a comparison.

    Attributes:
        selection: the selection; ``policy`` says whose it is.
        eps: execution providers that an application would have asked for; none for ortpkg's choice.
        agrees: True if it is certainly the same variant as ortpkg's.
    """

    selection: Selection
    eps: tuple[str, ...]
    agrees: bool


def compare_with_releases(
    package: ModelPackage,
    component: str | None = None,
    wishes: SelectionWishes = ANY_VARIANT,
    *,
    eps: Sequence[str] = (),
    **keywords: Unpack[SelectionKeywords],
) -> tuple[ComparedChoice, ...]:
    """Return ortpkg's choice first, then that of each release.

    Args:
        package: the package.
        component: as in :meth:`ModelPackage.select`.
        wishes, keywords: criteria of ortpkg's choice, as in :meth:`ModelPackage.select`, except
            ``ep``; ``variant`` and ``profile`` apply to all.
        eps: execution providers that the application asks for. If none is named, two applications
            are considered: one that asks for none, and one that asks for the one in ortpkg's
            choice.

    Raises:
        OrtpkgError: as :meth:`ModelPackage.select`.
    """
    wishes = wishes.but("compare_with_releases", keywords)
    if wishes.ep is not None:
        name = "compare_with_releases"
        raise TypeError(f"{name}() got an unexpected keyword argument 'ep'; say eps=[...]")
    ours = package.select(component, wishes, ep=eps[0] if len(eps) == 1 else None)
    common_wishes = SelectionWishes(variant=wishes.variant, profile=wishes.profile)
    theirs = [
        (requested_eps, package.select(component, common_wishes, policy=policy, ep=requested_eps))
        for policy in RELEASE_POLICIES
        for requested_eps in ([tuple(eps)] if eps else _applications(ours))
    ]
    return (
        ComparedChoice(selection=ours, eps=(), agrees=True),
        *(
            ComparedChoice(selection=selection, eps=requested_eps, agrees=_agrees(selection, ours))
            for requested_eps, selection in theirs
        ),
    )


def _applications(ours: Selection) -> list[tuple[str, ...]]:
    ep_device = None if ours.best is None else ours.best.ep_device
    return [()] if ep_device is None or ep_device.ep_name == CPU_EP else [(), (ep_device.ep_name,)]


def _agrees(theirs: Selection, ours: Selection) -> bool:
    names = [
        None if selection.best is None else selection.best.variant.name
        for selection in (theirs, ours)
    ]
    return names[0] == names[1] and not theirs.unpredictable
