"""Equal layers are scheduled once, each with its own tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.schedules_by_form import SchedulesByForm
from ortpkg.compiler.tensor_ir.elements import Call, Element, Function, Number, Read, Tensor, along
from ortpkg.compiler.tensor_ir.operations import Map, Product

_MODEL = MachineModel(vector_nbytes=32, register_count=16)
_PLACES = (along(0), along(1))


def _tensor(name: str, *shape: int, scalar: Scalar = Scalar.F32) -> Tensor:
    return Tensor(name, scalar, shape)


def _sum(left: Tensor, right: Element, name: str) -> Map:
    value = Call(Function.ADD, (Read(left, _PLACES), right))
    return Map(output=_tensor(name, 8, 8), axes=(8, 8), value=value, coordinates=_PLACES)


def _product(left: Tensor, right: Tensor, name: str) -> Product:
    output = _tensor(name, 64, 32)
    sides = (Read(left, _PLACES), Read(right, _PLACES))
    return Product(output=output, batch=(), m=64, n=32, k=16, left=sides[0], right=sides[1])


def test_maps_that_differ_in_their_tensors_have_one_kernel() -> None:
    schedules = SchedulesByForm(_MODEL)
    a, b, c = (_tensor(name, 8, 8) for name in "abc")
    one, other = _sum(a, Read(b, _PLACES), "x"), _sum(b, Read(c, _PLACES), "y")
    (first,), (second,) = schedules.schedule(one, ()), schedules.schedule(other, ())
    assert second.kernel is first.kernel
    assert set(second.buffers) == {b, c, other.output}
    assert [first.buffers.index(each) for each in (a, b, one.output)] == [
        second.buffers.index(each) for each in (b, c, other.output)
    ]


def test_packed_weights_of_each_product_are_its_own() -> None:
    schedules = SchedulesByForm(_MODEL)
    x, v, w = _tensor("x", 64, 16), _tensor("v", 16, 32), _tensor("w", 16, 32)
    (first,) = schedules.schedule(_product(x, v, "one"), {v, w})
    (second,) = schedules.schedule(_product(x, w, "two"), {v, w})
    assert second.kernel is first.kernel
    ((first_panels, first_packing),) = first.packed.items()
    ((second_panels, second_packing),) = second.packed.items()
    assert (first_packing.source, second_packing.source) == (v, w)
    assert second_panels is not first_panels
    assert second_panels in second.buffers
    assert second_packing.layout == first_packing.layout


@pytest.mark.parametrize(
    "number", [Number(-0.0, Scalar.F32), Number(1.0, Scalar.F32), Number(0.0, Scalar.F64)], ids=str
)
def test_operations_with_other_numbers_have_their_own_kernels(number: Number) -> None:
    schedules = SchedulesByForm(_MODEL)
    a = _tensor("a", 8, 8)
    (first,) = schedules.schedule(_sum(a, Number(0.0, Scalar.F32), "x"), ())
    (second,) = schedules.schedule(_sum(replace(a), number, "y"), ())
    assert second.kernel is not first.kernel


def test_an_operation_on_one_tensor_twice_is_none_on_two() -> None:
    schedules = SchedulesByForm(_MODEL)
    a, b = _tensor("a", 8, 8), _tensor("b", 8, 8)
    (first,) = schedules.schedule(_sum(a, Read(b, _PLACES), "x"), ())
    (second,) = schedules.schedule(_sum(a, Read(a, _PLACES), "y"), ())
    assert second.kernel is not first.kernel


def test_a_constant_side_is_told_from_one_that_comes_at_run_time() -> None:
    schedules = SchedulesByForm(_MODEL)
    x, v, w = _tensor("x", 64, 16), _tensor("v", 16, 32), _tensor("w", 16, 32)
    first = schedules.schedule(_product(x, v, "one"), {v})
    second = schedules.schedule(_product(x, w, "two"), {v})
    assert first[0].packed
    assert not any(each.packed for each in second)
