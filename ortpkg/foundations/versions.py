"""Versions of SDKs, drivers and packages, compared as Python's packaging does (PEP 440).

Any other text ("30.0.15.1179 (R512)", a build's hash) is compared literally. ``packaging`` is
loaded only if two texts differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.version import Version

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_LONGEST_TEXT = 256
_MINOR_PARTS = 2


def parse_version(text: str) -> Version | None:
    """Return the version that a text states, or None."""
    from packaging.version import (  # 10 ms; most versions are equal letter by letter
        InvalidVersion,
        Version,
    )

    if len(text) > _LONGEST_TEXT:
        return None
    try:
        return Version(text)
    except InvalidVersion:
        return None


def is_same_version(first: str, second: str) -> bool:
    """Return True if two texts mean the same version, like "1.0" and "1.0.0", unlike "1.0rc1"."""
    if first == second:
        return True
    left, right = parse_version(first), parse_version(second)
    return left is not None and left == right


def are_same_versions(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return True if texts mean the same versions pairwise, e.g. of an EP and its driver."""
    return len(first) == len(second) and all(map(is_same_version, first, second))


def is_same_minor(first: str, second: str) -> bool:
    """Return True if two versions have the same major and minor number.

    A text that is not a version equals only itself.
    """
    left, right = parse_version(first), parse_version(second)
    if left is None or right is None:
        return first == second
    return (left.epoch, _minor(left)) == (right.epoch, _minor(right))


def release_of(text: str) -> str:
    """Return the release in a version text: "2026.4.1" of "2026.4.1-22982-e213a147257"."""
    match = _RELEASE.search(text)
    return match.group() if match else ""


def is_within_release(version: str, release: str) -> bool:
    """Return True if a version belongs to a release, of which only the first numbers may be given.

    >>> is_within_release("2026.4.1-22982-e213a147257", "2026.4")
    True
    >>> is_within_release("2026.41", "2026.4")
    False
    """
    actual, expected = parse_version(release_of(version)), parse_version(release_of(release))
    if actual is None or expected is None:
        return False
    wanted = len(expected.release)
    return (*actual.release, *[0] * wanted)[:wanted] == expected.release


def is_outside(version: str, requirement: str) -> bool:
    """Return True if a requirement ("openvino>=2025.0") does not allow a version.

    False if one of the two cannot be parsed.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # as above

    parsed = parse_version(version) if len(requirement) <= _LONGEST_TEXT else None
    try:
        return parsed is not None and not Requirement(requirement).specifier.contains(
            parsed, prereleases=True
        )
    except InvalidRequirement:
        return False


def requirement_name(requirement: str) -> str:
    """Return the distribution of a requirement, in lower case with dashes; "" if it is invalid."""
    from packaging.requirements import InvalidRequirement, Requirement  # as above
    from packaging.utils import canonicalize_name

    if len(requirement) > _LONGEST_TEXT:
        return ""
    try:
        return str(canonicalize_name(Requirement(requirement).name))
    except InvalidRequirement:
        return ""


def _minor(version: Version) -> tuple[int, ...]:
    return (*version.release, 0)[:_MINOR_PARTS]
