"""Which variants of a package a machine, or several, or a user's word, asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.choosing.package_selection import THIS_MACHINE, select_component
from ortpkg.errors import UsageError, quoted
from ortpkg.package.derived_variants import is_derived
from ortpkg.package.named_parts import component_named, verify_variants_known
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.providers.machine_offer import asked_once
from ortpkg.selection.reasons import ep_device_label, selected
from ortpkg.selection.verdict import ReasonCode, Selection
from ortpkg.selection.wishes import SelectionWishes

if TYPE_CHECKING:
    from ortpkg.trust.publisher_trust import PublisherTrust


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallWishes:
    """Options for what to fetch of a package; by default the variants that this machine runs best.

    Attributes:
        profiles: machines: names or files of profiles, or ``this-machine``; none: this one.
        variants: these, ``variant`` or ``component/variant``; a component that none is of gets what
            is chosen.
        components: of these alone; none: of all that the package has.
        ep, device: only what runs on this execution provider, or kind of device.
        all_variants: everything.
        samples: the package's samples, too.
        trust: native code may be chosen, whoever made it; sessions on it then need ``--trust``.
    """

    profiles: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    ep: str | None = None
    device: str | None = None
    all_variants: bool = False
    samples: bool = False
    trust: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The wishes as texts: a generation keeps them, and its package is upgraded by them."""
        lists = [
            *(f"profile={_findable(each)}" for each in self.profiles),
            *(f"variant={each}" for each in self.variants),
            *(f"component={each}" for each in self.components),
        ]
        texts = {"ep": self.ep, "device": self.device}
        flags = {"all-variants": self.all_variants, "samples": self.samples, "trust": self.trust}
        return (
            *lists,
            *(f"{key}={text}" for key, text in texts.items() if text is not None),
            *(key for key, is_set in flags.items() if is_set),
        )

    @classmethod
    def of_words(cls, words: Iterable[str]) -> InstallWishes:
        """What :attr:`words` said; a word of a newer ortpkg is left out."""
        pairs = [word.partition("=")[::2] for word in words]
        said = dict(pairs)
        return cls(
            profiles=tuple(text for key, text in pairs if key == "profile"),
            variants=tuple(text for key, text in pairs if key == "variant"),
            components=tuple(text for key, text in pairs if key == "component"),
            ep=said.get("ep"),
            device=said.get("device"),
            all_variants="all-variants" in said,
            samples="samples" in said,
            trust="trust" in said,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenVariant:
    """A variant that is to be here.

    Attributes:
        component, variant: its names.
        why: for people, "for this machine: CPUExecutionProvider (embedded) on ...".
        trust_notes: a sentence for each variant that trust alone keeps from being chosen, and for
            this one where sessions here would refuse it.
    """

    component: str
    variant: str
    why: str
    trust_notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``component/variant``."""
        return f"{self.component}/{self.variant}"


def choose_variants(
    package: PackageInfo,
    wishes: InstallWishes,
    publisher: Callable[[], PublisherTrust] | None = None,
) -> tuple[ChosenVariant, ...]:
    """The variants that are wanted, of each component asked for at least one, as declared.

    ``publisher``: what native code its publisher may ship; left out, the package's own signatures
    say so.

    Raises:
        TrustRequiredError: what fits the machine is native code that sessions here would refuse.
        NoSuitableVariantError: nothing of a component fits a machine; it says why not.
        UnknownComponentError: there is no component or variant of a name that was asked for.
        UsageError: the wishes contradict each other, or name no device or EP.
        ProfileError: what is no profile.
    """
    if wishes.all_variants and (wishes.variants or wishes.profiles or wishes.ep or wishes.device):
        raise UsageError("all variants are wanted, so there is nothing to choose by")
    asked = {component_named(package, name).name for name in wishes.components}
    components = [each for each in package.components if not asked or each.name in asked]
    _verify_known(package, components, wishes.variants)
    chosen: dict[str, ChosenVariant] = {}
    with asked_once():
        for component in components:
            for each in _of_component(package, component, wishes, publisher):
                chosen.setdefault(each.name, each)
    return tuple(chosen.values())


def _of_component(
    package: PackageInfo,
    component: ComponentInfo,
    wishes: InstallWishes,
    publisher: Callable[[], PublisherTrust] | None,
) -> Iterator[ChosenVariant]:
    named = [
        variant
        for variant in component.variants
        if wishes.all_variants
        or variant.name in wishes.variants
        or f"{component.name}/{variant.name}" in wishes.variants
    ]
    if named:
        why = "because all are wanted" if wishes.all_variants else "asked for by name"
        notes = {} if wishes.trust or wishes.all_variants else _refused(package, named, publisher)
        for variant in named:
            yield ChosenVariant(
                component=component.name,
                variant=variant.name,
                why=why,
                trust_notes=notes.get(variant.name, ()),
            )
        return
    for profile in wishes.profiles or (THIS_MACHINE,):
        wished = SelectionWishes(
            ep=wishes.ep, device=wishes.device, profile=profile, include_absent=True
        )
        selection = select_component(
            package, component, wished, trust=wishes.trust, publisher=publisher
        )
        best = selected(selection)
        machine = f"machine {selection.machine}" if selection.machine else "this machine"
        yield ChosenVariant(
            component=component.name,
            variant=best.variant.name,
            why=f"for {machine}: {ep_device_label(best.ep_device)}",
            trust_notes=tuple(_left_behind(selection)),
        )


def _left_behind(selection: Selection) -> Iterator[str]:
    reasons = {
        verdict.variant.name: verdict.reason
        for verdict in selection.verdicts
        if verdict.code is ReasonCode.NEEDS_TRUST
    }
    for name, reason in reasons.items():
        yield (
            f"variant {quoted(name)} of {quoted(selection.component_name)} stays behind: {reason};"
            " --trust fetches it where it is best"
        )


def _refused(
    package: PackageInfo,
    variants: Iterable[VariantInfo],
    publisher: Callable[[], PublisherTrust] | None,
) -> dict[str, tuple[str, ...]]:
    """Say of compiled variants which sessions here would refuse without trust: name → sentence."""
    from ortpkg.trust.context_verdict import ContextVerdicts  # only where some are compiled

    verdicts = ContextVerdicts(package, publisher)
    reasons = {
        variant.name: verdicts.why_refused(variant)
        for variant in variants
        if variant.constraints.ep_compatibility_info or is_derived(variant)
    }
    return {
        name: (f"variant {quoted(name)} is fetched, and will not run as it is: {reason}",)
        for name, reason in reasons.items()
        if reason
    }


def _verify_known(
    package: PackageInfo, components: Iterable[ComponentInfo], names: Sequence[str]
) -> None:
    variants = [each for component in components for each in component.variants]
    for name in names:
        known = [
            f"{each.component_name}/{each.name}" if "/" in name else each.name for each in variants
        ]
        verify_variants_known(package, [name], known)


def _findable(profile: str) -> str:
    """A profile's name, or its file by a path that holds in every folder."""
    return str(Path(profile).absolute()) if Path(profile).is_file() else profile
