"""A served model: what requests may hold, which version answers, what the first run is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import (
    InvalidFeedError,
    NotServingError,
    RequestTooLargeError,
    RunError,
    UnknownModelError,
    UsageError,
)
from ortpkg.package.reader import open_package
from ortpkg.scale.serving import served_model
from ortpkg.scale.serving.loading import load
from ortpkg.scale.serving.protocol_tensors import RequestTensor
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.serving_options import LoadWishes, ServingLimits
from ortpkg.selection.matching.wishes import SelectionWishes
from tests.cli.conftest import DIGITS

LIMITS = ServingLimits(concurrency=1)


class Adder:
    """Adds its two inputs."""

    def get_inputs(self) -> list[Any]:
        """Two rows of any length."""
        return [SimpleNamespace(name=name, type="tensor(float)", shape=["n"]) for name in "ab"]

    def get_outputs(self) -> list[Any]:
        """Their sum and their difference."""
        names = ("sum", "difference")
        return [SimpleNamespace(name=name, type="tensor(float)", shape=["n"]) for name in names]

    def run(self, names: Any, feed: Any, options: Any = None) -> list[Any]:
        """Runs."""
        values = {"sum": feed["a"] + feed["b"], "difference": feed["a"] - feed["b"]}
        return [values[name] for name in names]


def adder(version: str = "1") -> ServedModel:
    return ServedModel(name="adder", version=version, session=Adder())


def given(name: str) -> RequestTensor:
    return RequestTensor(name=name, datatype="FP32", shape=[2], data=[1.0, 2.0])


def test_a_request_becomes_feeds_and_gets_the_outputs_that_it_asks_for() -> None:
    model = adder()
    feeds = model.read_inputs([given("b"), given("a")])
    assert {name: value.tolist() for name, value in feeds.items()} == {"a": [1, 2], "b": [1, 2]}
    assert [each.name for each in model.output_specs([])] == ["sum", "difference"]
    assert {name: value.tolist() for name, value in model.infer(feeds, ["sum"]).items()} == {
        "sum": [2, 4]
    }


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("ac", "'adder:1' has no input 'c'.* it takes 'a', 'b'"),
        ("a", "input 'b' of model 'adder:1' is missing"),
        ("aba", "input 'a' is given twice"),
    ],
)
def test_inputs_are_those_of_the_model_once_each(names: str, message: str) -> None:
    with pytest.raises(InvalidFeedError, match=message):
        adder().read_inputs([given(name) for name in names])


def test_texts_of_all_inputs_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Texts(Adder):
        def get_inputs(self) -> list[Any]:
            kinds = {"a": "tensor(string)", "b": "tensor(string)", "c": "tensor(float)"}
            return [
                SimpleNamespace(name=name, type=kind, shape=["n"]) for name, kind in kinds.items()
            ]

    monkeypatch.setattr(served_model, "MOST_TEXTS", 5)
    model = ServedModel(name="texts", version="1", session=Texts())
    numbers = RequestTensor(name="c", datatype="FP32", shape=[9], data=[0.0] * 9)
    two, three, four = (
        RequestTensor(name=name, datatype="BYTES", shape=[count], data=["t"] * count)
        for name, count in (("a", 2), ("b", 3), ("b", 4))
    )
    assert model.read_inputs([numbers, two, three]).keys() == {"a", "b", "c"}
    with pytest.raises(RequestTooLargeError, match="input 'b' brings"):
        model.read_inputs([two, four, numbers])


@pytest.mark.parametrize(
    ("names", "message"), [(["sums"], "no output 'sums'.*'sum'"), (["sum", "sum"], "twice")]
)
def test_outputs_are_those_of_the_model_once_each(names: list[str], message: str) -> None:
    with pytest.raises(InvalidFeedError, match=message):
        adder().output_specs(names)


def test_the_newest_version_answers_where_none_is_asked_for() -> None:
    versions = ServedVersions()
    for version in ("2", "10", "9.1", "nightly"):
        versions.add(adder(version))
    assert versions.find("adder").version == "10"
    assert versions.find("adder", "2").version == "2"
    assert versions.versions("adder") == ("nightly", "2", "9.1", "10")


def test_another_default_can_be_named_and_has_to_be_there() -> None:
    versions = ServedVersions({"adder": "2"})
    with pytest.raises(UsageError, match="'adder=2' is not among what is served: 'adder=3', 'm=2'"):
        versions.check_plan([("adder", "3"), ("m", "2")])
    versions.check_plan([("adder", "3"), ("adder", "2")])
    versions.add(adder("3"))
    versions.add(adder("2"))
    assert versions.find("adder").version == "2"


def test_what_is_not_there_may_still_come_until_everything_has() -> None:
    versions = ServedVersions()
    with pytest.raises(NotServingError, match="still being loaded"):
        versions.find("adder")
    versions.add(adder("1"))
    with pytest.raises(NotServingError, match="still being loaded"):
        versions.find("adder", "2")
    versions.is_complete = True
    with pytest.raises(UnknownModelError, match="'adder' has no version '2'; served are '1'"):
        versions.find("adder", "2")
    with pytest.raises(UnknownModelError, match="there is no model 'ader'"):
        versions.find("ader")


def test_a_version_is_served_once() -> None:
    versions = ServedVersions()
    with pytest.raises(UsageError, match="'adder:1' is named twice"):
        versions.check_plan([("adder", "1"), ("adder", "2"), ("adder", "1")])
    versions.add(adder())
    with pytest.raises(UsageError, match="'adder:1' is served already"):
        versions.add(adder())


def test_a_package_is_loaded_and_has_run_its_samples() -> None:
    loaded = load(open_package(DIGITS), LoadWishes(), LIMITS)
    assert loaded.model.title == "digits:1.0.0"
    assert [each.variant for each in loaded.model.variants] == ["cpu-fp32"]
    assert (loaded.first_run.on, loaded.first_run.matches) == ("samples", True)
    (logits,) = loaded.model.infer({"image": np.zeros((1, 1, 8, 8), np.float32)}).values()
    assert logits.shape == (1, 10)
    loaded.model.close()
    with pytest.raises(Exception, match="closed"):
        loaded.model.infer({"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_the_time_of_requests_does_not_bound_the_first_run() -> None:
    limits = ServingLimits(concurrency=1, timeout_s=1e-6)
    loaded = load(open_package(DIGITS), LoadWishes(), limits)
    assert loaded.first_run.matches


def test_a_package_without_samples_runs_made_up_inputs(tmp_path: Path) -> None:
    package = tmp_path / "digits.ortpackage"
    shutil.copytree(DIGITS, package)
    shutil.rmtree(package / "samples")
    (package / "digests.json").unlink()
    loaded = load(open_package(package), LoadWishes(name="numbers"), LIMITS)
    assert loaded.model.title == "numbers:1.0.0"
    assert (loaded.first_run.on, loaded.first_run.matches) == ("made-up inputs", None)


def test_a_model_whose_first_run_fails_is_not_served() -> None:
    with pytest.raises(RunError, match="its first run, on its samples, failed"):
        load(
            open_package(DIGITS),
            LoadWishes(),
            ServingLimits(concurrency=1, memory_limit_nbytes=1000),
        )


@pytest.mark.parametrize(("quantization", "matches"), [(None, False), ("bf16", True)])
def test_samples_without_tolerances_are_judged_by_the_precision_of_what_is_served(
    tmp_path: Path, quantization: str | None, matches: bool
) -> None:
    package = tmp_path / "digits.ortpackage"
    shutil.copytree(DIGITS, package)
    (package / "digests.json").unlink()
    place = package / "samples" / "samples.json"
    samples = json.loads(place.read_text())
    for each in samples["samples"]:
        each.pop("tolerances", None)
        each.pop("variants", None)
    place.write_text(json.dumps(samples))
    outputs = package / "samples" / "held_out_outputs.npz"
    with np.load(outputs) as found:
        shifted = {name: array * np.float32(1.005) for name, array in found.items()}
    np.savez(outputs, **shifted)
    document = package / "models" / "classifier" / "metadata.json"
    stated = json.loads(document.read_text())
    stated["model_variants"]["cpu-fp32"]["metadata"]["quantization"] = quantization
    document.write_text(json.dumps(stated))
    wishes = LoadWishes(selection=SelectionWishes(variant="cpu-fp32"))
    loaded = load(open_package(package), wishes, LIMITS)
    assert loaded.first_run.matches is matches
