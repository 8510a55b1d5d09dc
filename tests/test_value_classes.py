"""Classes whose methods are shared behave as dataclasses do."""

import copy
import dataclasses
import pickle

import pytest

from ortpkg.value_classes import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Two numbers, of which one alone is compared, and a list that is not shown."""

    x: float
    y: float = dataclasses.field(default=0.0, compare=False)
    notes: list[str] = dataclasses.field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Point):
    """One with a name."""

    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No fields, and words of its own."""

    def __repr__(self) -> str:
        return "nothing"


def test_values_are_compared_and_hashed_by_the_fields_that_count() -> None:
    assert Point(x=1.0, y=2.0) == Point(x=1.0, y=3.0)
    assert hash(Point(x=1.0, y=2.0)) == hash(Point(x=1.0, y=3.0))
    assert Point(x=1.0) != Point(x=2.0)
    assert Place(x=1.0, name="a") == Place(x=1.0, name="a")
    assert Place(x=1.0, name="a") != Place(x=1.0, name="b")
    assert Nothing() == Nothing()
    assert {Nothing(), Nothing()} == {Nothing()}


def test_a_value_equals_none_of_another_class_and_always_itself() -> None:
    nan = Point(x=float("nan"))
    assert Place(x=1.0) != Point(x=1.0)
    other: object = (1.0,)
    assert Point(x=1.0) != other
    assert Point(x=nan.x) == nan  # as in a tuple: the same object counts as equal


def test_values_are_shown_as_dataclasses_are() -> None:
    assert repr(Place(x=1.0, name="a")) == "Place(x=1.0, y=0.0, name='a')"
    assert repr(Nothing()) == "nothing"


def test_values_are_frozen_and_can_be_replaced_copied_and_pickled() -> None:
    place = Place(x=1.0, name="a", notes=["b"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        place.x = 2.0  # type: ignore[misc]  # that is refused
    assert dataclasses.replace(place, x=2.0) == Place(x=2.0, name="a")
    assert copy.deepcopy(place) == place == pickle.loads(pickle.dumps(place))
    assert dataclasses.asdict(place) == {"x": 1.0, "y": 0.0, "notes": ["b"], "name": "a"}
