"""What a provider hands back is held against the type that the graph declares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.graph.types import (
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
)
from ortpkg.runtime.engine.output_checks import is_value, value_check

FLOATS = TensorType(ElementType.FLOAT, (2, "N"))
RIGHT, OTHER_TYPE, OTHER_SIZE = (
    np.zeros((2, 3), np.float32),
    np.zeros((2, 3)),
    np.zeros((3, 3), np.float32),
)
MAP = MapType(ElementType.STRING, FLOATS)


@pytest.mark.parametrize(
    ("declared", "value", "fits"),
    [
        (FLOATS, RIGHT, True),
        (FLOATS, OTHER_TYPE, False),
        (FLOATS, OTHER_SIZE, False),
        (FLOATS, RIGHT[0], False),
        (FLOATS, [RIGHT], False),
        (FLOATS, None, False),
        (TensorType(ElementType.FLOAT, None), OTHER_SIZE, True),
        (TensorType(ElementType.STRING, (1,)), np.array(["a"]), True),
        (TensorType(ElementType.STRING, (1,)), np.zeros(1), False),
        (SequenceType(FLOATS), [RIGHT, RIGHT], True),
        (SequenceType(FLOATS), [], True),
        (SequenceType(FLOATS), [RIGHT, OTHER_TYPE], False),
        (SequenceType(FLOATS), RIGHT, False),
        (SequenceType(TensorType(ElementType.UNDEFINED, None)), [OTHER_TYPE], True),
        (OptionalType(FLOATS), None, True),
        (OptionalType(FLOATS), RIGHT, True),
        (OptionalType(FLOATS), OTHER_TYPE, False),
        (OptionalType(SequenceType(FLOATS)), [RIGHT], True),
        (OptionalType(SequenceType(FLOATS)), [None], False),
        (MAP, {"a": RIGHT}, True),
        (MAP, [], False),
    ],
)
def test_a_value_is_of_its_type_or_not(declared: ValueType, value: Any, fits: bool) -> None:
    check = value_check(declared, with_shape=True)
    assert check is not None
    assert check(value) is fits


def test_shapes_are_looked_at_only_where_that_is_wanted() -> None:
    check = value_check(FLOATS, with_shape=False)
    assert check is not None
    assert (check(OTHER_SIZE), check(RIGHT[0]), check(OTHER_TYPE)) == (True, True, False)


def test_nothing_is_known_of_what_has_no_type() -> None:
    assert value_check(None, with_shape=True) is None
    assert value_check(TensorType(ElementType.UNDEFINED, (2,)), with_shape=True) is None


@pytest.mark.parametrize("value", [1, 1.0, 1j, "a", b"a", True])
def test_numbers_and_texts_of_pythons_own_are_no_values(value: Any) -> None:
    assert not is_value(value)
    assert is_value([value])
