"""What is asked of a program of the tensor IR, operation by operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from ortpkg.compiler.tensor_ir.elements import Read
from ortpkg.compiler.tensor_ir.operations import Operation
from ortpkg.compiler.tensor_ir.tensor_program import EXPRESSION_ATTRIBUTES


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for each in get_args(hint):
        yield from _parts(each)


@pytest.mark.parametrize("kind", get_args(Operation))
def test_every_attribute_that_is_an_expression_is_changed_with_the_others(kind: type) -> None:
    hints = get_type_hints(kind)
    expressions = {name for name, hint in hints.items() if Read in _parts(hint)}
    expressions.discard("activations")  # of what is made, alone: they read no tensor
    assert set(EXPRESSION_ATTRIBUTES[kind]) == expressions
