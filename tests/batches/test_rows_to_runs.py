"""How columns become inputs, and what a part of rows gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import RowFailedError, RunError, UsageError
from ortpkg.package.package_info import ValueInfo
from ortpkg.scale.batches import row_feeds
from ortpkg.scale.batches.column_mapping import column_map, parse_map
from ortpkg.scale.batches.model_layout import ModelLayout, model_layout
from ortpkg.scale.batches.part_run import RunPlan, run_part
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Column, Rows
from ortpkg.scale.batches.text_rows import MISSING

Shape = tuple[int | str | None, ...]


def layout(inputs: dict[str, Shape], outputs: dict[str, Shape], **options: Any) -> ModelLayout:
    kind = options.pop("kind", "tensor(float)")
    taken, given = (
        [ValueInfo(name=name, type=kind, shape=shape) for name, shape in each.items()]
        for each in (inputs, outputs)
    )
    return model_layout(taken, given, **options)


class FakeSession:
    """A session that computes one output, ``y``, and remembers the shapes that it was fed."""

    def __init__(self, compute: Callable[[Mapping[str, Any]], Any]) -> None:
        self.compute = compute
        self.fed: list[list[tuple[int, ...]]] = []

    def run(
        self, names: Sequence[str] | None, feed: Mapping[str, Any], _options: Any = None, /
    ) -> list[Any]:
        self.fed.append([np.shape(each) for each in feed.values()])
        return [self.compute(feed)]


def run(
    session: FakeSession, model: ModelLayout, columns: Mapping[str, Column], **plan: Any
) -> Rows:
    count = len(next(iter(columns.values())))
    part = Part(number=0, files=("rows",), first_row=10, file_row=0, count=count)
    rows = Rows(row_ids=np.arange(10, 10 + count), columns=columns)
    names = [each.name for each in model.inputs]
    given = plan.pop("fed", {})
    options = {"batch_size": 2, "stops": False, **plan}
    return run_part(
        session,
        part,
        rows,
        RunPlan(layout=model, columns=column_map(names, list(columns), given), **options),
    )


def test_columns_feed_inputs_by_name_or_as_said() -> None:
    assert column_map(["a", "b"], ["a", "c", "b"], parse_map(["b=c"])) == {"a": ("a",), "b": ("c",)}
    assert column_map(["image"], ["data"], {}) == {"image": ("data",)}
    assert parse_map(["x=a,b,c"]) == {"x": ("a", "b", "c")}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["image"], "it takes INPUT=COLUMN"),
        (["image=a", "image=b"], "is given twice"),
        (["imag=a"], "the model has no input 'imag' (did you mean 'image'?)"),
        (["image=pixel"], "there is no column 'pixel' (did you mean 'pixels'?)"),
        ([], "--map image=COLUMN says which feeds it"),
    ],
)
def test_a_map_that_does_not_fit_is_told(given: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        column_map(["image"], ["pixels", "label"], parse_map(given))
    assert message in str(raised.value)


def test_rows_are_run_in_batches_and_outputs_are_in_order() -> None:
    session = FakeSession(lambda feed: feed["x"] * 2)
    found = run(
        session, layout({"x": ("n", 3)}, {"y": ("n", 3)}), {"x": np.arange(15.0).reshape(5, 3)}
    )
    assert session.fed == [[(2, 3)], [(2, 3)], [(1, 3)]]
    assert found.row_ids.tolist() == [10, 11, 12, 13, 14]
    np.testing.assert_array_equal(found.columns["y"], np.arange(15.0).reshape(5, 3) * 2)


def test_flat_lists_take_the_shape_of_the_input() -> None:
    session = FakeSession(lambda feed: feed["x"].sum((1, 2, 3)))
    model = layout({"x": ("n", 1, 2, 2)}, {"y": ("n",)})
    whole = run(session, model, {"x": np.arange(8.0).reshape(2, 4)})
    lists = run(session, model, {"x": [[0, 1, 2, 3], [4.0, 5, 6, 7]]})
    assert session.fed == [[(2, 1, 2, 2)]] * 2
    np.testing.assert_array_equal(whole.columns["y"], lists.columns["y"])


def test_rows_that_are_arrays_of_one_shape_are_taken_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(row_feeds, "row_value")
    session = FakeSession(lambda feed: feed["x"].sum((1, 2, 3)))
    model = layout({"x": ("n", 1, 2, 2)}, {"y": ("n",)})
    column = np.empty(2, object)  # as Ray Data has lists
    column[:] = list(np.arange(8.0).reshape(2, 4))
    for each in (column, list(column)):
        assert np.asarray(run(session, model, {"x": each}).columns["y"]).tolist() == [6, 22]


def test_several_columns_are_the_numbers_of_one_input() -> None:
    session = FakeSession(lambda feed: feed["x"])
    columns = {"a": ["1", "2"], "b": [" 3.5", "4"]}
    found = run(session, layout({"x": ("n", 2)}, {"y": ("n", 2)}), columns, fed={"x": ("a", "b")})
    np.testing.assert_array_equal(found.columns["y"], [[1, 3.5], [2, 4]])


def test_rows_of_different_shapes_are_not_run_together() -> None:
    session = FakeSession(lambda feed: feed["x"] + 1)
    model = layout({"x": ("n", "length")}, {"y": ("n", "length")}, kind="tensor(int64)")
    found = run(session, model, {"x": [[1], [1, 2], [3], [4]]})
    assert session.fed == [[(2, 1)], [(1, 1)], [(1, 2)]]
    assert [each.tolist() for each in found.columns["y"]] == [[2], [2, 3], [4], [5]]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "'x' is empty"),
        ("", "'x' is empty"),
        ("six", "'x' is 'six', which is no int32"),
        (2.5, "'x' is '2.5', which is no int32"),
        (float("nan"), "'x' is 'nan', which is no int32"),
        (2**40, "which is no int32"),
        (10**400, "which is no"),
        ([1, 2], "'x' has 2; the input takes one value"),
        ([[1], [1, 2]], "'x' has lists of different lengths"),
        ({"a": 1}, "which is no number"),
    ],
)
def test_a_row_that_cannot_be_fed_is_an_error_and_the_others_run(value: Any, reason: str) -> None:
    session = FakeSession(lambda feed: feed["x"])
    model = layout({"x": ("n",)}, {"y": ("n",)}, kind="tensor(int32)")
    found = run(session, model, {"x": [1, value, "3"]})
    assert found.row_ids.tolist() == [10, 12]
    assert np.asarray(found.columns["y"]).tolist() == [1, 3]
    ((row_id, file_row, said),) = [(e.row_id, e.file_row, e.reason) for e in found.errors]
    assert (row_id, file_row) == (11, 1)
    assert reason in said


def test_numbers_that_are_none_are_fed_and_numbers_that_would_become_infinite_are_not() -> None:
    session = FakeSession(lambda feed: feed["x"])
    model = layout({"x": ("n",)}, {"y": ("n",)})
    fed = [float("nan"), "NaN", "-Infinity", float("inf")]
    refused = [1e300, "1e999", 1e39]
    found = run(session, model, {"x": [*fed, *refused]}, batch_size=8)
    values = found.columns["y"]
    np.testing.assert_array_equal(values, np.array([np.nan, np.nan, -np.inf, np.inf], np.float32))
    assert [each.row_id for each in found.errors] == [14, 15, 16]
    assert "'x' is '1e+300', which is too large for float32" in found.errors[0].reason
    whole = run(session, model, {"x": np.array([1.0, 1e300, np.inf])}, batch_size=8)
    assert whole.row_ids.tolist() == [10, 12]


def test_a_row_without_the_column_is_an_error() -> None:
    session = FakeSession(lambda feed: feed["x"])
    model = layout({"x": ("n",)}, {"y": ("n",)})
    part = Part(number=0, files=("rows",), first_row=0, file_row=0, count=1)
    rows = Rows(row_ids=np.zeros(1, np.int64), columns={"z": [1]})
    plan = RunPlan(layout=model, columns={"x": ("x",)}, batch_size=1, stops=False)
    (error,) = run_part(session, part, rows, plan).errors
    assert error.reason == "there is no 'x'"


def test_a_column_that_is_kept_has_nothing_where_a_row_has_none() -> None:
    session = FakeSession(lambda feed: feed["x"])
    model = layout({"x": ("n",)}, {"y": ("n",)})
    columns: dict[str, Column] = {"x": [1, 2], "a": [MISSING, "here"]}
    found = run(session, model, columns, kept_columns=("a", "b"), fed={"x": ("x",)})
    assert (found.columns["a"], found.columns["b"]) == ([None, "here"], [None, None])


def _fails_at_seven(feed: Mapping[str, Any]) -> Any:
    if (feed["x"] == 7).any():
        raise RunError("node 'lookup': index 7 is out of range")
    return feed["x"]


def test_a_batch_that_fails_is_run_row_by_row() -> None:
    model = layout({"x": ("n",)}, {"y": ("n",)})
    columns: dict[str, Column] = {"x": np.array([1.0, 2, 7, 4, 5]), "label": list("abcde")}
    found = run(
        FakeSession(_fails_at_seven),
        model,
        columns,
        batch_size=4,
        kept_columns=("label",),
        fed={"x": ("x",)},
    )
    assert found.row_ids.tolist() == [10, 11, 13, 14]
    assert found.columns["label"] == ["a", "b", "d", "e"]
    assert [(each.row_id, each.reason) for each in found.errors] == [
        (12, "node 'lookup': index 7 is out of range")
    ]


def test_without_errors_the_first_row_that_fails_ends_it() -> None:
    model = layout({"x": ("n",)}, {"y": ("n",)})
    with pytest.raises(
        RowFailedError, match=r"row 2 of rows: node 'lookup'.*--errors FILE"
    ) as raised:
        run(FakeSession(_fails_at_seven), model, {"x": np.array([1.0, 2, 7])}, stops=True)
    assert raised.value.row_id == 12


def test_a_model_of_one_row_runs_rows_singly() -> None:
    session = FakeSession(lambda feed: feed["x"])
    found = run(session, layout({"x": (1, 2)}, {"y": (1, 2)}), {"x": np.arange(4.0).reshape(2, 2)})
    assert session.fed == [[(1, 2)]] * 2
    np.testing.assert_array_equal(found.columns["y"], [[0, 1], [2, 3]])


def test_a_model_of_fixed_batches_is_filled_up() -> None:
    session = FakeSession(lambda feed: feed["x"])
    model = layout({"x": (4, 1)}, {"y": (4, 1)}, batch_size=4)
    found = run(session, model, {"x": np.arange(6.0).reshape(6, 1)}, batch_size=4)
    assert session.fed == [[(4, 1)]] * 2
    np.testing.assert_array_equal(found.columns["y"], np.arange(6.0).reshape(6, 1))


def test_a_first_dimension_of_another_size_belongs_to_the_row() -> None:
    session = FakeSession(lambda feed: feed["x"].sum(keepdims=True))
    found = run(session, layout({"x": (3,)}, {"y": (5,)}), {"x": np.ones((2, 3))})
    assert session.fed == [[(3,)]] * 2
    np.testing.assert_array_equal(found.columns["y"], [[3], [3]])


def test_an_output_of_a_pipeline_that_is_no_rows_is_the_rows_whole() -> None:
    session = FakeSession(lambda feed: np.zeros((120, 1, 1)))
    model = layout({"tokens": (1, "prompt")}, {"text": (120, 1, 1)}, kind="tensor(int64)")
    found = run(session, model, {"tokens": [[1, 2, 3], [4, 5]]}, batch_size=64)
    assert session.fed == [[(1, 3)], [(1, 2)]]
    assert np.shape(found.columns["text"]) == (2, 120, 1, 1)


def test_an_output_that_has_not_a_value_for_each_row_is_an_error() -> None:
    session = FakeSession(lambda feed: np.zeros(7))
    found = run(session, layout({"x": ("n",)}, {"y": ("n",)}), {"x": np.ones(1)})
    assert "its first dimension is no rows" in found.errors[0].reason
