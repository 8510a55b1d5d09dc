"""The callable class for Ray Data's ``map_batches``, called as Ray does."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import RowFailedError, UsageError
from ortpkg.scale.batches.package_runner import PackageRunner
from ortpkg.scale.ray import PackageModel
from tests.cli.conftest import DIGITS

IMAGES = np.random.default_rng(2).random((5, 64), np.float32)


@pytest.fixture(scope="module")
def model() -> PackageModel:
    return PackageModel(DIGITS, columns={"image": "pixels"}, batch_size=2, backend="embedded")


def test_a_batch_gets_outputs_and_keeps_what_was_not_fed(model: PackageModel) -> None:
    found = model({"pixels": IMAGES, "id": np.arange(5)})
    session = ortpkg.ModelPackage(DIGITS).create_session(backend="embedded")
    (expected,) = session.run(None, {"image": IMAGES.reshape(5, 1, 8, 8)})
    assert sorted(found) == ["id", "logits"]
    np.testing.assert_array_equal(found["id"], np.arange(5))
    np.testing.assert_allclose(found["logits"], expected, rtol=1e-5, atol=1e-5)


def test_a_batch_costs_no_look_at_the_package(
    model: PackageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(PackageRunner, "facts")
    assert len(model({"pixels": IMAGES})["logits"]) == 5


def test_it_says_what_runs_and_why(model: PackageModel) -> None:
    (chosen,) = model.chosen
    assert (chosen.component, chosen.variant, chosen.backend) == (
        "classifier",
        "cpu-fp32",
        "embedded",
    )
    assert chosen.reason
    assert model.notes == ()


def test_an_empty_batch_gives_an_empty_one(model: PackageModel) -> None:
    assert model({}) == {}
    assert model({"pixels": IMAGES[:0]}) == {}


def test_a_row_that_cannot_be_run_raises(model: PackageModel) -> None:
    with pytest.raises(RowFailedError, match="row 1 of the batch: 'pixels' is empty"):
        model({"pixels": [IMAGES[0], None]})


def test_a_column_that_is_not_there_is_told(model: PackageModel) -> None:
    with pytest.raises(UsageError, match="there is no column 'pixels'"):
        model({"image": IMAGES, "id": np.arange(5)})


def test_errors_reach_the_driver_as_they_are(model: PackageModel) -> None:
    with pytest.raises(RowFailedError) as raised:
        model({"pixels": [None]})
    there = pickle.loads(pickle.dumps(raised.value))
    assert (str(there), there.row_id) == (str(raised.value), 0)


def test_an_unknown_wish_is_told() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'polices'"):
        PackageModel(DIGITS, polices="default")  # type: ignore[call-arg]  # that is the mistake


def test_a_worker_starts_without_what_answers_requests() -> None:
    program = "import sys, ortpkg.scale.ray.stages; from ortpkg.scale.ray import PackageModel; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "ortpkg.scale.batches.package_runner" in loaded
    assert not [
        name
        for name in loaded
        if name.startswith(("ortpkg.scale.serving", "ortpkg.scale.ray.serve"))
    ]
