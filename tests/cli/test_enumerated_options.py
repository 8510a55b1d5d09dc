"""Options that take one of some words: a wrong one is wrong usage, with the likely one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("run PKG --backend onxruntime", "onnxruntime"),
        ("run PKG --device gpuu", "gpu"),
        ("run PKG --ep opnvino", "OpenVINOExecutionProvider"),
        ("run PKG --policy defualt", "default"),
        ("run PKG --variant cpu-fp23", "cpu-fp32"),
        ("run PKG --component clasifier", "classifier"),
        ("select PKG --device gpuu", "gpu"),
        ("select PKG --ep cudda", "CUDAExecutionProvider"),
        ("select PKG --policy prefer-nup", "prefer-npu"),
        ("select PKG --compat onnxruntime1.31", "onnxruntime-1.31"),
        ("select PKG --variant cpu-fp23", "cpu-fp32"),
        ("select PKG --component clasifier", "classifier"),
        ("validate PKG --target onnxruntime-1.72", "onnxruntime-1.27"),
        ("validate PKG --format jsn", "json"),
        ("explain ORT0001", "ORT001"),
        ("init NEW --format metdata", "metadata"),
        ("create NEW --cpu M --format universl", "universal"),
        ("create NEW --variant openvino:npuu=M", "npu"),
        ("add-variant PKG M --device npuu", "npu"),
        ("convert PKG --to metdata -o NEW", "metadata"),
        ("dedup PKG --layout common-dir", "common-directory"),
        ("slim PKG --device gpuu -o NEW", "gpu"),
        ("slim PKG --variant cpu-fp23 -o NEW", "cpu-fp32"),
        ("remove-variant PKG cpu-fp23", "cpu-fp32"),
    ],
)
def test_a_mistyped_word_is_wrong_usage_with_a_suggestion(
    ortpkg: RunCommand, tmp_path: Path, words: str, meant: str
) -> None:
    places = {
        "PKG": str(DIGITS),
        "NEW": str(tmp_path / "new"),
        "M": str(DIGITS / "models/classifier/cpu-fp32/model.onnx"),
    }
    done = ortpkg(
        *(places.get(word, word.replace("=M", f"={places['M']}")) for word in words.split())
    )
    assert done.code == 2, done.err
    assert meant in done.err
    assert "error: " in done.err
    assert not (tmp_path / "new").exists()
