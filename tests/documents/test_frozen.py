"""Read-only copies of JSON values."""

from __future__ import annotations

from typing import Any

import pytest

from ortpkg.foundations.documents.frozen import EMPTY, FrozenMapping, freeze, thaw


@pytest.mark.parametrize(
    "value", [[], {}, [[], {}], {"a": [], "b": {}}, {"a": [1, {"b": None}]}, "", 0, None]
)
def test_what_was_frozen_thaws_as_it_was_however_empty(value: Any) -> None:
    assert thaw(freeze(value)) == value


def test_an_empty_array_is_no_empty_object() -> None:
    assert freeze([]) == ()
    assert freeze(FrozenMapping()) is EMPTY
