"""Options of compiling a package, and the names of the compiled variants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.compiler.machine_code.cpu_targets import (
    BFLOAT_PRECISION,
    PRECISION_OPTION,
    TARGET_OPTION,
    target_named,
)
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.ep_names import LLVM_EP, resolve_ep_name, short_ep_names
from ortpkg.foundations.errors import UsageError

_NO_WORD = re.compile(r"[^a-z0-9]+")
_FLOAT32_WORDS = ("fp32", "f32", "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileWishes:
    """Options of compiling: the variants to compile, the provider, and how.

    Attributes:
        ep: the execution provider that compiles: a name or an alias.
        device: "cpu", "gpu" or "npu"; None for the first that the EP offers on this machine.
        backend: the library whose EP of that name compiles, as in CompileRequest; None for the
            first that has it.
        component: only this one; None for all.
        variants: the plain variants to compile, by name; empty for the first plain one of each
            component.
        name: of the new variant, if there is only one; None for the source's name and the EP's.
        provider_options: of the EP; kept with the variants, since a context holds for the options
            it was made with.
        targets: the CPUs that code is made for, each of which gives a variant: names of
            :mod:`~ortpkg.compiler.machine_code.cpu_targets`; empty for this machine's.
        is_embedded: contexts are stored in the models.
        shares_weights: variants that can lie in one folder share one binary.
        for_onnxruntime: contexts are made as onnxruntime's EP of the name makes and reads them.
        renews: compile variants again as before, and replace them: those whose source is another
            model by now, or the named ``variants``; ``ep`` may be "", for those of any EP.
        overwrites: replace an existing compiled variant of the new name.
        timeout_s: of all compiling together.
        memory_limit_nbytes: of a process that compiles, as in CompileRequest.
        for_device: a device that this machine lacks, as in CompileRequest; "" for one of this
            machine.
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
        """True if contexts are written for onnxruntime, in the form that its EP reads."""
        return self.for_onnxruntime or bool(self.for_device)

    @property
    def rounds_to_bfloat(self) -> bool:
        """True if machine code is to multiply numbers rounded to bfloat16."""
        return (
            resolve_ep_name(self.ep) == LLVM_EP
            and self.provider_options.get(PRECISION_OPTION) == BFLOAT_PRECISION
        )


def check_wishes(wishes: CompileWishes) -> None:
    """Raise UsageError for wishes that contradict each other, or name no execution provider."""
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
            from ortpkg.runtime.providers.ep_registry import (
                compiling_eps,  # only needed for the error
            )

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


def suffixes_and_options(wishes: CompileWishes) -> list[tuple[str, dict[str, str]]]:
    """Return, for each variant that a source gives, the suffix of its name and its options.

    Raises:
        UsageError: a target is unknown, or the EP compiles for its own device only.
    """
    if not wishes.targets:
        return [(_short(wishes), {})]
    if resolve_ep_name(wishes.ep) != LLVM_EP:
        raise UsageError(f"targets are CPUs that {LLVM_EP} compiles for: take --ep llvm")
    cpu_targets = dict.fromkeys(target_named(target) for target in wishes.targets)
    return [(target.short_name, {TARGET_OPTION: target.name}) for target in cpu_targets]


def default_name(source: str, short: str, wishes: CompileWishes) -> str:
    """Return a name from the source's and the suffix; it says "bf16" instead of a stated "fp32"."""
    if not wishes.rounds_to_bfloat:
        return f"{source}-{short}"
    words = source.split("-")
    new_words = ["bf16" if word.lower() in _FLOAT32_WORDS else word for word in words]
    return "-".join([*new_words, short] if "bf16" in new_words else [*new_words, short, "bf16"])


def _short(wishes: CompileWishes) -> str:
    ep = resolve_ep_name(wishes.ep).removesuffix("ExecutionProvider").lower()
    absent = _NO_WORD.sub("-", Path(wishes.for_device).name.removesuffix(".json").lower())
    return "-".join(filter(None, (ep, wishes.device, absent.strip("-"), wishes.backend)))
