"""What ortpkg chooses beside what onnxruntime's releases would, told to publishers first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortpkg.api.model_package import ModelPackage
from ortpkg.ep_names import CPU_EP
from ortpkg.selection.policies import RELEASE_POLICIES
from ortpkg.selection.verdict import Selection
from ortpkg.selection.wishes import ANY_VARIANT, SelectionWishes

if TYPE_CHECKING:
    from typing import Unpack

    from ortpkg.selection.wishes import WishedKeywords


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedChoice:
    """One choice of a comparison.

    Attributes:
        selection: the whole answer; ``policy`` tells whose it is.
        eps: the execution providers that an application would have asked for; none for a choice of
            ours.
        agrees: whether it is the variant that ours is, and certainly so.
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
    **keywords: Unpack[WishedKeywords],
) -> tuple[ComparedChoice, ...]:
    """Ours first, then each release's.

    Args:
        package: the package.
        component: as in :meth:`ModelPackage.select`.
        wishes, keywords: for our own choice, as in :meth:`ModelPackage.select`, but for ``ep``; a
            ``variant`` and a ``profile`` count for all.
        eps: the execution providers that the application asks for. Where none is named, two
            applications are considered: one that asks for none, and one that asks for the one that
            ours runs on.

    Raises as :meth:`ModelPackage.select` does.
    """
    wishes = wishes.but("compare_with_releases", keywords)
    if wishes.ep is not None:
        name = "compare_with_releases"
        raise TypeError(f"{name}() got an unexpected keyword argument 'ep'; say eps=[...]")
    ours = package.select(component, wishes, ep=eps[0] if len(eps) == 1 else None)
    of_all = SelectionWishes(variant=wishes.variant, profile=wishes.profile)
    theirs = [
        (asked, package.select(component, of_all, policy=policy, ep=asked))
        for policy in RELEASE_POLICIES
        for asked in ([tuple(eps)] if eps else _applications(ours))
    ]
    return (
        ComparedChoice(selection=ours, eps=(), agrees=True),
        *(
            ComparedChoice(selection=each, eps=asked, agrees=_agrees(each, ours))
            for asked, each in theirs
        ),
    )


def _applications(ours: Selection) -> list[tuple[str, ...]]:
    place = None if ours.best is None else ours.best.ep_device
    return [()] if place is None or place.ep_name == CPU_EP else [(), (place.ep_name,)]


def _agrees(theirs: Selection, ours: Selection) -> bool:
    names = [None if each.best is None else each.best.variant.name for each in (theirs, ours)]
    return names[0] == names[1] and not theirs.unpredictable
