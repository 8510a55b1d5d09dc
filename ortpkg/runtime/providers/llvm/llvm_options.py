"""Provider options of LLVMExecutionProvider: the CPU that code is for, and its precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ortpkg.compiler.machine_code.cpu_targets import (
    BFLOAT_PRECISION,
    FULL_PRECISION,
    PRECISION_OPTION,
    TARGET_OPTION,
    CpuTarget,
    host_target,
    target_named,
)
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import InvalidSessionOptionError, UsageError, quoted
from ortpkg.runtime.providers.llvm.llvm_compatibility import host_extras

_OPTIONS = frozenset({PRECISION_OPTION, TARGET_OPTION})
_PRECISIONS = (FULL_PRECISION, BFLOAT_PRECISION)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlvmOptions:
    """Options of one provider, checked.

    Attributes:
        target: CPU target of the compiled code.
        is_for_here: True if nobody named the target: code may use everything that this machine's
            CPU has.
        precision: a value of the provider option ``precision``.
    """

    target: CpuTarget
    is_for_here: bool
    precision: str

    @property
    def multiplies_bfloat(self) -> bool:
        """True if products round their factors to bfloat16."""
        return self.precision == BFLOAT_PRECISION

    @property
    def extras(self) -> tuple[str, ...]:
        """Features beyond the target's: those of this machine, if code is compiled for just that.

        For a named target they are the features that its precision needs.
        """
        if self.is_for_here:
            return host_extras(self.target)
        extra = self.target.bfloat_extra
        return (extra,) if extra is not None and self.multiplies_bfloat else ()


def read_options(options: Mapping[str, str]) -> LlvmOptions:
    """Return the options of a provider, checked.

    Raises:
        InvalidSessionOptionError: an option, a target or a precision is unknown, or the target has
            no code for the precision.
    """
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise InvalidSessionOptionError(
            f"{LLVM_EP} has no option {quoted(unknown[0])}; it has {', '.join(sorted(_OPTIONS))}",
            key=unknown[0],
        )
    llvm_options = LlvmOptions(
        target=_target(options.get(TARGET_OPTION)),
        is_for_here=TARGET_OPTION not in options,
        precision=options.get(PRECISION_OPTION, FULL_PRECISION),
    )
    _verify_precision(llvm_options)
    return llvm_options


def _target(name: str | None) -> CpuTarget:
    if name is not None:
        try:
            return target_named(name)
        except UsageError as error:
            raise InvalidSessionOptionError(str(error), key=TARGET_OPTION) from error
    target = host_target()
    if target is None:
        raise InvalidSessionOptionError(
            f"{LLVM_EP} compiles for no CPU like this machine's; name a target by its option"
            f" {quoted(TARGET_OPTION)}",
            key=TARGET_OPTION,
        )
    return target


def _verify_precision(options: LlvmOptions) -> None:
    """Raise InvalidSessionOptionError for an unknown precision, or one without code.

    A program that asks for speed must not get float32 in silence.
    """
    precision, extra = options.precision, options.target.bfloat_extra
    if precision not in _PRECISIONS:
        raise InvalidSessionOptionError(
            f"{LLVM_EP} has no precision {quoted(precision)}; it has {', '.join(_PRECISIONS)}",
            key=PRECISION_OPTION,
        )
    if not options.multiplies_bfloat or extra in options.extras:
        return
    lack = (
        f"{options.target.name} has none"
        if extra is None
        else f"this machine's CPU lacks {extra}; name a target to compile for another CPU"
    )
    raise InvalidSessionOptionError(
        f"precision {quoted(precision)} takes a CPU's instruction for products of bfloat16, and"
        f" {lack}",
        key=PRECISION_OPTION,
    )
