"""Selection of the variants to fetch, for one machine, several machines, or by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.package.derived_variants import is_derived
from ortpkg.package.named_parts import component_named, verify_variants_known
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.runtime.providers.machine_offer import asked_once
from ortpkg.selection.choosing.package_selection import THIS_MACHINE, select_component
from ortpkg.selection.matching.reasons import ep_device_label, selected
from ortpkg.selection.matching.verdict import ReasonCode, Selection
from ortpkg.selection.matching.wishes import SelectionWishes

if TYPE_CHECKING:
    from ortpkg.package.trust.publisher_trust import PublisherTrust


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallWishes:
    """Options for what to fetch of a package; by default the variants that this machine runs best.

    Attributes:
        profiles: Machines: names or files of profiles, or ``this-machine``; default: this machine.
        variants: ``variant`` or ``component/variant``; a component without one of them gets the
            best.
        components: Components; default: all of the package.
        ep, device: Only variants that run on this execution provider or kind of device.
        all_variants: True for everything.
        samples: True to include the package's samples.
        trust: True to allow native code of anybody; sessions on it then need ``--trust``.
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
        """The wishes as texts, which a generation records for upgrades."""
        lists = [
            *(f"profile={_findable(name)}" for name in self.profiles),
            *(f"variant={name}" for name in self.variants),
            *(f"component={name}" for name in self.components),
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
        """Return the wishes of :attr:`words`; words of a newer ortpkg are ignored."""
        pairs = [word.partition("=")[::2] for word in words]
        values = dict(pairs)
        return cls(
            profiles=tuple(text for key, text in pairs if key == "profile"),
            variants=tuple(text for key, text in pairs if key == "variant"),
            components=tuple(text for key, text in pairs if key == "component"),
            ep=values.get("ep"),
            device=values.get("device"),
            all_variants="all-variants" in values,
            samples="samples" in values,
            trust="trust" in values,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantToFetch:
    """Variant to fetch.

    Attributes:
        component, variant: Names of the component and the variant.
        why: Reason for people, "for this machine: CPUExecutionProvider (embedded) on ...".
        trust_notes: Sentences about variants that only missing trust keeps from being selected, and
            about this one if sessions here would refuse it.
    """

    component: str
    variant: str
    why: str
    trust_notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``component/variant``, as options take it."""
        return f"{self.component}/{self.variant}"


def choose_variants(
    package: PackageInfo,
    wishes: InstallWishes,
    publisher: Callable[[], PublisherTrust] | None = None,
) -> tuple[VariantToFetch, ...]:
    """Return the variants to fetch, at least one for each component, in declared order.

    Args:
        package: The package.
        wishes: Options of the selection.
        publisher: Returns the native code that the publisher may ship; default: by the package's
            own signatures.

    Raises:
        TrustRequiredError: The fitting variant is native code that sessions here would refuse.
        NoSuitableVariantError: No variant of a component fits a machine; the message says why.
        UnknownComponentError: A component or variant of that name does not exist.
        UsageError: The wishes contradict each other, or name an unknown device or EP.
        ProfileError: A profile is invalid.
    """
    if wishes.all_variants and (wishes.variants or wishes.profiles or wishes.ep or wishes.device):
        raise UsageError("all variants are wanted, so there is nothing to choose by")
    component_names = {component_named(package, name).name for name in wishes.components}
    components = [
        item for item in package.components if not component_names or item.name in component_names
    ]
    _verify_known(package, components, wishes.variants)
    chosen: dict[str, VariantToFetch] = {}
    with asked_once():
        for component in components:
            for item in _choose_in_component(package, component, wishes, publisher):
                chosen.setdefault(item.name, item)
    return tuple(chosen.values())


def _choose_in_component(
    package: PackageInfo,
    component: ComponentInfo,
    wishes: InstallWishes,
    publisher: Callable[[], PublisherTrust] | None,
) -> Iterator[VariantToFetch]:
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
            yield VariantToFetch(
                component=component.name,
                variant=variant.name,
                why=why,
                trust_notes=notes.get(variant.name, ()),
            )
        return
    for profile in wishes.profiles or (THIS_MACHINE,):
        selection_wishes = SelectionWishes(
            ep=wishes.ep, device=wishes.device, profile=profile, include_absent=True
        )
        selection = select_component(
            package, component, selection_wishes, trust=wishes.trust, publisher=publisher
        )
        best = selected(selection)
        machine = f"machine {selection.machine}" if selection.machine else "this machine"
        yield VariantToFetch(
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
    """Return a sentence for each compiled variant that sessions here would refuse without trust."""
    from ortpkg.selection.contexts.context_verdict import (
        ContextVerdicts,  # only where some are compiled
    )

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
    variants = [variant for component in components for variant in component.variants]
    for name in names:
        known_names = [
            f"{variant.component_name}/{variant.name}" if "/" in name else variant.name
            for variant in variants
        ]
        verify_variants_known(package, [name], known_names)


def _findable(profile: str) -> str:
    """Return a profile's name, or the absolute path of its file."""
    return str(Path(profile).absolute()) if Path(profile).is_file() else profile
