"""A caller's wishes as one value, and as keyword arguments."""

from __future__ import annotations

import ast
import inspect
from dataclasses import FrozenInstanceError, fields

import pytest

from ortpkg.selection.matching import wishes
from ortpkg.selection.matching.wishes import ANY_VARIANT, SelectionWishes


def test_the_keyword_arguments_of_type_checkers_are_the_fields() -> None:
    (typed,) = (
        each
        for each in ast.walk(ast.parse(inspect.getsource(wishes)))
        if isinstance(each, ast.ClassDef) and each.name == "SelectionKeywords"
    )
    declared = [each for each in typed.body if isinstance(each, ast.AnnAssign)]

    assert {ast.unparse(each.target): ast.unparse(each.annotation) for each in declared} == {
        each.name: each.type for each in fields(SelectionWishes)
    }


def test_keyword_arguments_come_before_the_value_beside_which_they_stand() -> None:
    held = SelectionWishes(device="npu", policy="prefer-cpu")

    assert held.but("f", {"device": "gpu"}) == SelectionWishes(device="gpu", policy="prefer-cpu")
    assert held.but("f", {}) is held


def test_a_keyword_argument_that_is_none_is_told_of_the_method_with_the_nearest_name() -> None:
    with pytest.raises(
        TypeError, match=r"^f\(\) got an unexpected keyword argument 'devcie' \(did you mean 'dev"
    ):
        ANY_VARIANT.but("f", {"devcie": "gpu"})  # type: ignore[typeddict-unknown-key]


def test_wishes_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        ANY_VARIANT.device = "npu"  # type: ignore[misc]
