"""Samples that are added to a package, and those that its best variant makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.api.model_package import ModelPackage
from ortpkg.api.samples.sample_authoring import SampleArrays, add_samples, record_samples
from ortpkg.api.samples.sample_runner import run_samples
from ortpkg.authoring.create import create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import AuthoringError, UsageError
from ortpkg.package.formats.samples import Tolerance, read_samples
from ortpkg.package.integrity.digest_check import check_digests
from tests.npz import arrays_in

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] x) => (float[N, 3] y, float[N,'
        " 3] z) "
    )
    onnx.save(onnx.parser.parse_model(text + "{ y = Neg(x) z = Abs(x) }"), tmp_path / "m.onnx")
    return create(tmp_path / "p", [NewVariant.for_cpu(tmp_path / "m.onnx")]).root


def samples(name: str = "s", **changes: Any) -> SampleArrays:
    return SampleArrays(**{"name": name, "inputs": {"x": X}, **changes})


def document(package: Path) -> Any:
    assert check_digests(package) == ()
    return json.loads((package / "samples/samples.json").read_bytes())["samples"]


def test_given_arrays_become_a_sample_set(package: Path) -> None:
    info = add_samples(
        package,
        samples(expected={"y": -X}, is_batched=True, tolerances={"y": Tolerance(absolute=0.5)}),
    )
    (found,) = read_samples(info)
    assert (found.name, found.component, found.batch_axis) == ("s", "model", 0)
    assert found.expected_outputs is not None
    np.testing.assert_array_equal(arrays_in(found.expected_outputs)["y"], -X)
    assert found.tolerance("y") == Tolerance(absolute=0.5)
    assert [str(each) for each in validate(package)] == []


def test_a_second_set_comes_after_the_first(package: Path) -> None:
    add_samples(package, samples("a"))
    add_samples(package, samples("b"))
    assert [each["name"] for each in document(package)] == ["a", "b"]


def test_the_best_variant_records_what_it_gives(package: Path) -> None:
    record_samples(package, samples(is_batched=True), wishes={"backend": "embedded"})
    (found,) = read_samples(ModelPackage(package).info)
    assert found.expected_outputs is not None
    expected = arrays_in(found.expected_outputs)
    np.testing.assert_array_equal(expected["y"], -X)
    np.testing.assert_array_equal(expected["z"], X)
    assert found.tolerance("z") is None  # each variant's own precision says it
    session = ModelPackage(package).best_variant().create_session(backend="embedded")
    assert run_samples(session, found).matches


def test_expected_outputs_are_recorded_anew_for_the_inputs_that_are_there(package: Path) -> None:
    add_samples(package, samples("first"))
    add_samples(package, samples(expected={"y": X, "z": X}, description="kept", is_batched=True))
    wrong = document(package)[1]["expected_outputs"]

    record_samples(package, samples(inputs={}, tolerances={"y": Tolerance(absolute=1)}))

    first, second = document(package)
    assert (first["name"], second["description"], second["inputs"]) == (
        "first",
        "kept",
        "s_inputs.npz",
    )
    np.testing.assert_array_equal(
        arrays_in(package / "samples" / second["expected_outputs"])["y"], -X
    )
    assert second["tolerances"]["y"] == {"absolute": 1, "relative": 0}
    assert not (package / "samples" / wrong).exists()


def test_a_set_is_replaced_only_where_asked_for(package: Path) -> None:
    add_samples(package, samples(expected={"y": X}))
    for change in (add_samples, record_samples):
        with pytest.raises(AuthoringError, match="there is a sample set 's' already"):
            change(package, samples())
    add_samples(package, samples(inputs={"x": X + 1}), overwrite=True)
    (only,) = document(package)
    assert "expected_outputs" not in only
    assert sorted(path.name for path in (package / "samples").iterdir()) == [
        "s_inputs_2.npz",
        "samples.json",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": {"w": X}}, "the model has no input 'w'; it has 'x'"),
        ({"expected": {"u": X}}, "the model has no output 'u'"),
        ({"tolerances": {"u": Tolerance()}}, "the model has no output 'u'"),
    ],
)
def test_names_are_those_of_the_model(package: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        add_samples(package, samples(**changes))
    assert not (package / "samples").exists()


def test_nothing_can_be_recorded_without_inputs(package: Path) -> None:
    with pytest.raises(
        UsageError, match="no sample set 's' whose inputs could be run; there is none; give --input"
    ):
        record_samples(package, samples(inputs={}))
