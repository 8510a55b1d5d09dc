"""What of a package is to be compiled, and how: what variants become, and how these are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.documents.frozen import EMPTY
from ortpkg.ep_names import LLVM_EP, resolve_ep_name, short_ep_names
from ortpkg.errors import UsageError
from ortpkg.machine_code.cpu_targets import (
    BFLOAT_PRECISION,
    PRECISION_OPTION,
    TARGET_OPTION,
    target_named,
)

_NO_WORD = re.compile(r"[^a-z0-9]+")
_FLOAT32_WORDS = ("fp32", "f32", "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileWishes:
    """Options of compiling: the variants to compile, the provider, and how.

    Attributes:
        ep: the execution provider that compiles: a name or an alias.
        device: "cpu", "gpu" or "npu"; None for the first that the EP offers here.
        backend: whose EP of that name, as in CompileRequest; None for the first that has it.
        component: only this one; None for all.
        variants: the plain variants to compile, by name; empty: the first plain one of each
            component.
        name: of the new variant, where it is one; None: the source's name and the EP's.
        provider_options: of the EP; kept with the variants, since a context holds for the options
            it was made with.
        targets: the CPUs that code is made for, each of which becomes a variant: names of
            :mod:`~ortpkg.machine_code.cpu_targets`; empty: this machine's.
        is_embedded: contexts go into the models.
        shares_weights: variants that can lie in one folder share one binary.
        for_onnxruntime: contexts are made as onnxruntime's EP of the name makes and reads them.
        renews: compiled variants are made anew, as they were made, in their place: those whose
            source is another model by now, or those that ``variants`` name; ``ep`` may be "", for
            those of any.
        overwrites: a compiled variant of the name that is asked for is replaced.
        timeout_s: of all compiling together.
        memory_limit_nbytes: of a process that compiles, as in CompileRequest.
        for_device: a device that is not here, as in CompileRequest; "" for one of this machine.
    """

    ep: str
    device: str | None = None
    backend: str | None = None
    component: str | None = None
    variants: Sequence[str] = ()
    name: str | None = None
    provider_options: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    targets: Sequence[str] = ()
    is_embedded: bool = False
    shares_weights: bool = False
    for_onnxruntime: bool = False
    renews: bool = False
    overwrites: bool = False
    timeout_s: float = 3600.0
    memory_limit_nbytes: int | None = None
    for_device: str = ""

    @property
    def is_for_onnxruntime(self) -> bool:
        """Return True if contexts are written for onnxruntime, in the form that its EP reads."""
        return self.for_onnxruntime or bool(self.for_device)

    @property
    def rounds_to_bfloat(self) -> bool:
        """Whether machine code is to multiply numbers rounded to bfloat16."""
        return (
            resolve_ep_name(self.ep) == LLVM_EP
            and self.provider_options.get(PRECISION_OPTION) == BFLOAT_PRECISION
        )


def check_wishes(wishes: CompileWishes) -> None:
    """UsageError for wishes that contradict each other, or name no execution provider."""
    if wishes.is_embedded and wishes.shares_weights:
        raise UsageError(
            "contexts embedded in their models have nothing to share: embed them, or share weights"
        )
    if wishes.for_device and (wishes.device or wishes.targets):
        raise UsageError(
            "--for-device names the device itself: --device and --target do not go with it"
        )
    if not wishes.renews:
        if not wishes.ep:
            from ortpkg.providers.ep_registry import compiling_eps  # on the way to an error

            raise UsageError(
                "no execution provider is named that compiles: take --ep EP, as --ep"
                f" {', --ep '.join(map(short_ep_names, compiling_eps()))}; ortpkg ep list shows"
                " those of installed libraries"
            )
        return
    what_to_renew = CompileWishes(
        renews=True,
        ep=wishes.ep,
        component=wishes.component,
        variants=wishes.variants,
        timeout_s=wishes.timeout_s,
        memory_limit_nbytes=wishes.memory_limit_nbytes,
    )
    if wishes != what_to_renew:
        raise UsageError(
            "--renew makes variants as they were made: only --ep, --component, --variant and limits"
            " go with it; --overwrite makes them otherwise"
        )


def kinds_of(wishes: CompileWishes) -> list[tuple[str, dict[str, str]]]:
    """What each source becomes: how that is called, and the options that it takes.

    Raises UsageError for a target that nobody knows, or for an EP that compiles for its own device.
    """
    if not wishes.targets:
        return [(_short(wishes), {})]
    if resolve_ep_name(wishes.ep) != LLVM_EP:
        raise UsageError(f"targets are CPUs that {LLVM_EP} compiles for: take --ep llvm")
    found = dict.fromkeys(target_named(each) for each in wishes.targets)
    return [(each.short_name, {TARGET_OPTION: each.name}) for each in found]


def default_name(source: str, short: str, wishes: CompileWishes) -> str:
    """The source's name and what it becomes; the name says how it computes where it says so."""
    if not wishes.rounds_to_bfloat:
        return f"{source}-{short}"
    words = source.split("-")
    own = ["bf16" if each.lower() in _FLOAT32_WORDS else each for each in words]
    return "-".join([*own, short] if "bf16" in own else [*own, short, "bf16"])


def _short(wishes: CompileWishes) -> str:
    ep = resolve_ep_name(wishes.ep).removesuffix("ExecutionProvider").lower()
    absent = _NO_WORD.sub("-", Path(wishes.for_device).name.removesuffix(".json").lower())
    return "-".join(filter(None, (ep, wishes.device, absent.strip("-"), wishes.backend)))
