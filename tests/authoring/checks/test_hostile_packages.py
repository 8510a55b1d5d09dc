"""Whatever bytes a package has, validate says what is wrong with it, and never breaks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortpkg.authoring.package_checks import validate
from ortpkg.authoring.rules.targets import TARGETS
from tests.authoring.checks.trees import (
    context_model,
    external,
    genai_tree,
    model_with_data,
    pipeline_tree,
    sample_tree,
    universal_tree,
    write_tree,
)

TREES = {
    "samples": sample_tree()
    | {"gpu/model.onnx": model_with_data(external(), external("b")), "gpu/w.bin": bytes(16)},
    "pipeline": pipeline_tree(),
    "genai": genai_tree() | {"cpu/decoder.onnx": context_model(), "cpu/net.bin": b"x"},
    "universal": universal_tree(),
}


@st.composite
def changes(draw: st.DrawFn, nbytes: int) -> tuple[int, int, bytes]:
    """(start, end, what takes the place of the bytes between)."""
    start = draw(st.integers(0, nbytes))
    end = draw(st.integers(start, min(nbytes, start + 8)))
    return start, end, draw(st.binary(max_size=8))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TREES)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(data=st.data())
def test_changed_bytes_are_findings_not_crashes(name: str, data: Any, tmp_path: Path) -> None:
    root = tmp_path / "p"
    if not root.is_dir():
        write_tree(root, TREES[name])
    files = sorted(path for path in root.rglob("*") if path.is_file())
    file = data.draw(st.sampled_from(files))
    content = file.read_bytes()
    start, end, replacement = data.draw(changes(len(content)))
    file.write_bytes(content[:start] + replacement + content[end:])
    try:
        for finding in validate(root, targets=TARGETS):
            assert str(finding).isprintable()
            assert finding.message
    finally:
        file.write_bytes(content)


def test_an_empty_folder_in_the_place_of_every_file(tmp_path: Path) -> None:
    for name, tree in TREES.items():
        for path in tree:
            if path == "manifest.json":
                continue
            root = write_tree(tmp_path / name, tree)
            (root / path).unlink()
            (root / path).mkdir()
            assert validate(root, targets=TARGETS), path
            shutil.rmtree(root)
