"""Several versions of an operation, of which the sizes of a run choose one."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.machine_code.program import Condition
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.kernel_versions import Version, versions_by_size
from ortpkg.compiler.schedules.products.product import schedule_product
from ortpkg.graph.shapes.expressions import Size, symbol
from tests.compiler.native_targets import V4
from tests.compiler.product_factories import close, floats, matrix_product, relu_of_biased, tensor
from tests.compiler.scheduled_kernels import run_scheduled

ROWS, COLUMNS = symbol("rows"), symbol("columns")


def _version(name: str, most: int | None = None) -> Version:
    return Version(most=most, make=lambda: [KernelMaker(name).scheduled(1)])


def _chosen(size: Size, *versions: Version) -> list[tuple[str, tuple[Condition, ...]]]:
    made = versions_by_size(size, *versions)
    return [(each.kernel.name, each.conditions) for each in made]


@pytest.mark.parametrize(
    ("size", "name"), [(0, "one"), (1, "one"), (2, "few"), (8, "few"), (9, "many")]
)
def test_of_a_known_size_only_its_version_is_made(size: int, name: str) -> None:
    versions = (_version("one", 1), _version("few", 8), _version("many"))
    assert _chosen(size, *versions) == [(name, ())]


def test_each_version_of_an_open_size_has_its_range_as_a_condition() -> None:
    assert _chosen(ROWS, _version("one", 1), _version("few", 8), _version("many")) == [
        ("one", (Condition(size=ROWS, least=0, most=1),)),
        ("few", (Condition(size=ROWS, least=2, most=8),)),
        ("many", (Condition(size=ROWS, least=9, most=None),)),
    ]


def test_a_version_may_be_made_of_versions_by_another_size() -> None:
    inner = Version(make=lambda: versions_by_size(COLUMNS, _version("narrow", 8), _version("wide")))
    many, columns = Condition(size=ROWS, least=2), Condition(size=COLUMNS, least=9)
    assert _chosen(ROWS, _version("one", 1), inner) == [
        ("one", (Condition(size=ROWS, most=1),)),
        ("narrow", (many, Condition(size=COLUMNS, most=8))),
        ("wide", (many, columns)),
    ]


@pytest.mark.parametrize("limits", [(1, 1, None), (4, 1, None), (1, 4), (None, None)])
def test_versions_that_leave_sizes_out_are_refused(limits: tuple[int | None, ...]) -> None:
    with pytest.raises(ValueError, match="do not follow each other"):
        versions_by_size(ROWS, *(_version("any", most) for most in limits))


def test_a_product_of_open_rows_has_versions_over_panels_that_are_packed_once() -> None:
    left, right = tensor("left", ROWS, 19), tensor("right", 19, 62)
    bias, output = tensor("bias", 62), tensor("out", ROWS, 62)
    product = matrix_product(left, right, output, epilogue=relu_of_biased(bias))
    kernels = schedule_product(product, V4.model, {right})
    assert [each.conditions[0].most for each in kernels] == [1, 4, None]
    layouts = {packing.layout for each in kernels for packing in each.packed.values()}
    assert len(layouts) == 1
    for rows in (0, 1, 2, 4, 5, 33):
        arrays = {
            left: floats(rows, 19),
            right: floats(19, 62),
            bias: floats(62),
            output: np.full((rows, 62), np.nan, np.float32),
        }
        run_scheduled(kernels, arrays, V4, {"rows": rows})
        close(arrays[output], np.maximum(arrays[left] @ arrays[right] + arrays[bias], 0))
