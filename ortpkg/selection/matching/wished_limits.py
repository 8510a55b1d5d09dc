"""Limits that a caller sets: memory, size, precision, metadata, measured time and error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ortpkg.foundations.errors import UsageError, quoted, unquoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.quantities import duration_text, nbytes_text, parse_duration_s, parse_nbytes
from ortpkg.foundations.versions import is_same_version
from ortpkg.package.package_info import VERSION_FACT, VariantInfo, has_packages_version, own_version
from ortpkg.selection.matching.variant_facts import PRECISIONS, Precision, words_of
from ortpkg.selection.matching.wishes import SelectionWishes


class Limits(NamedTuple):
    """Checked limits; None or empty for no limit.

    Attributes:
        max_memory_nbytes: most memory that a variant may need (docs/selection.md, "Fit").
        max_size_nbytes: most bytes of a variant's files together.
        min_precision: lowest acceptable precision.
        where: (key, value) pairs that a variant's metadata must have.
        max_latency_s: most seconds for the 95th percentile of its measured time.
        max_error: largest absolute difference from the expected outputs, as measured.
        strict_facts: True to reject a variant for which a limit cannot be checked.
    """

    max_memory_nbytes: int | None = None
    max_size_nbytes: int | None = None
    min_precision: Precision | None = None
    where: tuple[tuple[str, str], ...] = ()
    max_latency_s: float | None = None
    max_error: float | None = None
    strict_facts: bool = False

    def described(self) -> tuple[str, ...]:
        """Return each limit in a few words."""
        texts = []
        if self.max_memory_nbytes is not None:
            texts.append(f"memory up to {nbytes_text(self.max_memory_nbytes)}")
        if self.max_size_nbytes is not None:
            texts.append(f"size up to {nbytes_text(self.max_size_nbytes)}")
        if self.min_precision is not None:
            texts.append(f"precision {self.min_precision.label} or more")
        texts += [f"{unquoted(key)}={unquoted(value)}" for key, value in self.where]
        if self.max_latency_s is not None:
            texts.append(f"latency up to {duration_text(self.max_latency_s)}")
        if self.max_error is not None:
            texts.append(f"error up to {self.max_error:g}")
        return (*texts, *(["strict facts"] if self.strict_facts else []))


NO_LIMITS = Limits()


def limits_of(wishes: SelectionWishes) -> Limits:
    """Return the limits among a caller's wishes; UsageError names one that is invalid."""
    memory, size, precision = wishes.max_memory, wishes.max_size, wishes.min_precision
    latency, error = wishes.max_latency, wishes.max_error
    if error is not None and not (math.isfinite(error) and error >= 0):
        raise UsageError(f"max-error is no distance: {error}; write e.g. 0.001")
    return Limits(
        max_memory_nbytes=None if memory is None else parse_nbytes(memory, "max-memory"),
        max_size_nbytes=None if size is None else parse_nbytes(size, "max-size"),
        min_precision=None if precision is None else _precision_named(precision),
        where=tuple(_pairs(wishes.where)),
        max_latency_s=None if latency is None else parse_duration_s(latency, "max-latency"),
        max_error=error,
        strict_facts=wishes.strict_facts,
    )


def check_where_keys(
    where: Iterable[tuple[str, str]],
    variants: Iterable[VariantInfo],
    *,
    package_version: str | None = None,
) -> None:
    """Raise UsageError for a key that no variant's metadata has, which is a typo.

    The key ``version`` is accepted, too, if the package states its version.
    """
    keys = dict.fromkeys(key for variant in variants for key in variant.metadata)
    if package_version is not None:
        keys[VERSION_FACT] = None
    for key, _ in where:
        if key not in keys:
            listed = ", ".join(quoted(recorded) for recorded in keys) or "nothing"
            raise UsageError(
                f"no variant records {quoted(key)} in its metadata{did_you_mean(key, keys)};"
                f" recorded are: {listed}"
            )


def recorded_fact(
    variant: VariantInfo, key: str, *, package_version: str | None = None
) -> tuple[bool, object]:
    """Return whether a variant has a fact under ``key``, and the fact.

    Its version may be the package's.
    """
    if key == VERSION_FACT:
        version = package_version if has_packages_version(variant) else own_version(variant)
        return version is not None, version
    return key in variant.metadata, variant.metadata.get(key)


def meets_condition(key: str, recorded: object, wanted: str) -> bool:
    """Return True if the fact under ``key`` has the wanted value; versions compare as versions."""
    if key == VERSION_FACT and isinstance(recorded, str):
        return is_same_version(recorded, wanted.strip())
    return has_value(recorded, wanted)


def has_value(recorded: object, wanted: str) -> bool:
    """Return True if a recorded fact has the wanted value.

    A text has it if the text or one of its words equals ``wanted`` ("int8" for "qdq-int8"); a list,
    if one of its entries does; a number, if it is the same number; null, if "none" is wanted. Case
    does not matter.
    """
    text = wanted.strip().lower()
    if recorded is None:
        return text in {"none", "null"}
    if isinstance(recorded, bool):
        return text == str(recorded).lower()
    if isinstance(recorded, int | float):
        try:
            return float(text) == recorded
        except ValueError:
            return False
    if isinstance(recorded, str):
        return text == recorded.lower() or text in words_of(recorded)
    return isinstance(recorded, list | tuple) and any(
        has_value(entry, wanted) for entry in recorded
    )


def _precision_named(text: str) -> Precision:
    precision = PRECISIONS.get(text.lower())
    if precision is None:
        raise UsageError(
            f"there is no precision {quoted(text)}{did_you_mean(text, PRECISIONS)}; known are:"
            f" {', '.join(PRECISIONS)}"
        )
    return precision


def _pairs(where: Mapping[str, Any] | Sequence[str] | None) -> Iterable[tuple[str, str]]:
    if isinstance(where, Mapping):
        yield from ((key, "none" if value is None else str(value)) for key, value in where.items())
        return
    for condition in [where] if isinstance(where, str) else where or ():
        key, sign, value = condition.partition("=")
        if not (sign and key.strip() and value.strip()):
            raise UsageError(
                f"where is no condition: {quoted(condition)}; write KEY=VALUE, e.g."
                " quantization=int8"
            )
        yield key.strip(), value.strip()
