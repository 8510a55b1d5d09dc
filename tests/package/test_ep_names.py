"""The package layer's list of execution providers."""

from __future__ import annotations

from ortpkg.devices.ep_names import KNOWN_EPS
from ortpkg.package.ep_names import KNOWN_EP_NAMES


def test_both_lists_of_execution_providers_are_the_same() -> None:
    """The layers package and devices may not import each other, so each has the names that it needs."""
    assert frozenset(KNOWN_EPS) == KNOWN_EP_NAMES
