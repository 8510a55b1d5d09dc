"""What ortpkg chooses beside what releases of onnxruntime would: for a publisher, before users find
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortpkg.api.model_package import ModelPackage
from ortpkg.ep_names import CPU_EP
from ortpkg.selection.policies import RELEASE_POLICIES
from ortpkg.selection.verdict import Selection
from ortpkg.selection.wishes import ComparisonWishes, check_wishes

if TYPE_CHECKING:
    from typing import Unpack


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
    *,
    eps: Sequence[str] = (),
    **wishes: Unpack[ComparisonWishes],
) -> tuple[ComparedChoice, ...]:
    """Ours first, then each release's.

    Args:
        package: the package.
        component: as in :meth:`ModelPackage.select`.
        eps: the execution providers that the application asks for. Where none is named, two
            applications are considered: one that asks for none, and one that asks for the one that
            ours runs on.
        wishes: for our own choice, as in :meth:`ModelPackage.select`; a ``variant`` and a
            ``profile`` count for all.

    Raises as :meth:`ModelPackage.select` does.
    """
    check_wishes("compare_with_releases", wishes, ComparisonWishes)
    ours = package.select(component, ep=eps[0] if len(eps) == 1 else None, **wishes)
    variant, profile = wishes.get("variant"), wishes.get("profile")
    theirs = [
        (
            asked,
            package.select(component, policy=policy, ep=asked, variant=variant, profile=profile),
        )
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
