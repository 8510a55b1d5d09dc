"""Models of other frameworks are named, with what makes an ONNX model of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.authoring.create import create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.opening import kind_of
from ortpkg.foundations.errors import ModelFileError, PackageNotFoundError
from ortpkg.graph.foreign_models import foreign_model

FILES = {
    "net.pt": (b"PK\x03\x04archive/data.pkl", "a PyTorch file: export the model with torch.onnx"),
    "net.PTH": (b"", "a PyTorch file"),
    "net.safetensors": (b"\x40" + bytes(7) + b"{}", "a file of weights without a graph"),
    "net.tflite": (b"", "a TensorFlow model: convert it with tf2onnx"),
    "net.gguf": (b"", "a GGUF file of llama.cpp"),
    "net.bin": (b"GGUF\x03\0\0\0", "a GGUF file of llama.cpp"),
    "renamed.onnx": (b"\x1c\0\0\0TFL3", "a TensorFlow model"),
    "old.onnx": (b"\x80\x02\x8a\nl\xfc\x9cF", "a PyTorch file"),
    "forest.pkl": (b"", "a pickle of Python objects"),
    "forest.joblib": (b"\x80\x04\x95", "scikit-learn's with skl2onnx"),
    "forest.onnx": (b"\x80\x05\x95", "a pickle of Python objects"),
    "downloaded.onnx": (b"<!DOCTYPE html><html>", "a web page, no model"),
    "page.onnx": (b"<HTML lang=en>", "a web page, no model"),
    "model.onnx": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_framework_is_named_where_a_model_is_made_a_variant(
    tmp_path: Path, name: str
) -> None:
    content, said = FILES[name]
    file = tmp_path / name
    file.write_bytes(content or b"\xff\xff")

    assert said in foreign_model(file)
    with pytest.raises(ModelFileError) as caught:
        create(tmp_path / "p", [NewVariant.for_cpu(file)], notify=lambda _: None)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["net.pt", "net.safetensors", "net.bin"])
def test_it_is_named_where_a_package_is_opened(tmp_path: Path, name: str) -> None:
    content, said = FILES[name]
    (tmp_path / name).write_bytes(content)

    with pytest.raises(PackageNotFoundError) as caught:
        kind_of(tmp_path / name)
    assert said in str(caught.value)


def test_what_is_no_known_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"text")

    assert foreign_model(tmp_path / "net.onnx") == ""
    assert foreign_model(tmp_path / "nothing.onnx") == ""
