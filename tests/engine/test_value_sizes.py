"""Sizes of values in bytes, whatever a model calls its values and dimensions."""

from __future__ import annotations

from pathlib import Path

from ortpkg import InferenceSession
from tests.report.models import save_named_model


def test_names_of_any_length_are_planned_and_their_values_told_apart(tmp_path: Path) -> None:
    save_named_model(tmp_path / "model.onnx", "long/" * 2000)
    with InferenceSession(tmp_path / "model.onnx") as session:
        values = session.get_plan().graph.values
    sizes = [value.size for value in values]
    assert len(values) == 2
    assert len(set(sizes)) == 2
    assert all(len(size) < 1000 for size in sizes)
