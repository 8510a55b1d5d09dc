"""Recognizes model files of other frameworks by name and first bytes, with advice on each."""

from __future__ import annotations

from pathlib import Path

_PYTORCH = "a PyTorch file: export the model with torch.onnx.export"
_WEIGHTS_ALONE = (
    "a file of weights without a graph: load it in the framework that made it, and export the model"
    " to ONNX (optimum-cli export onnx does so for models of transformers)"
)
_TENSORFLOW = "a TensorFlow model: convert it with tf2onnx"
_GGUF = "a GGUF file of llama.cpp: export the original model to ONNX"
_OPENVINO = "a model of OpenVINO: take the ONNX model that it was converted from"
_POINTER = "a pointer to a large file that git did not fetch: git lfs pull"
_PICKLE = (
    "a pickle of Python objects: load it where it was made, and convert the model to ONNX"
    " (scikit-learn's with skl2onnx)"
)
_WEB_PAGE = "a web page, no model: what was downloaded is the page that shows the file"
_COMPILED = "compiled for one device: take the ONNX model that it was compiled from"

#: Suffix → description of the file, with advice.
_BY_SUFFIX = {
    ".pt": _PYTORCH,
    ".pth": _PYTORCH,
    ".ckpt": _PYTORCH,
    ".pt2": _PYTORCH,
    ".safetensors": _WEIGHTS_ALONE,
    ".h5": _TENSORFLOW,
    ".keras": _TENSORFLOW,
    ".pb": _TENSORFLOW,
    ".tflite": _TENSORFLOW,
    ".gguf": _GGUF,
    ".pkl": _PICKLE,
    ".pickle": _PICKLE,
    ".joblib": _PICKLE,
    ".mlmodel": "a Core ML model: take the ONNX model that it was converted from",
    ".engine": _COMPILED,
    ".plan": _COMPILED,
}
#: (offset, bytes there, description of the file, with advice).
_BY_BYTES = (
    (0, b"GGUF", _GGUF),
    (4, b"TFL3", _TENSORFLOW),
    (0, b"\x89HDF\r\n\x1a\n", _TENSORFLOW),
    (0, b"\x80\x02", _PYTORCH),  # a pickle, as torch.save wrote it before 1.6
    (0, b"\x80\x03", _PICKLE),
    (0, b"\x80\x04", _PICKLE),
    (0, b"\x80\x05", _PICKLE),
    (0, b"<?xml", _OPENVINO),
    (0, b"<!doctype html", _WEB_PAGE),
    (0, b"<html", _WEB_PAGE),
    (0, b"version https://git-lfs", _POINTER),
)
_MOST_NBYTES = 24


def foreign_model(path: Path) -> str:
    """Return a description of another framework's file, with advice; "" for any other file.

    A file that cannot be read is judged by its name alone.
    """
    if advice := _BY_SUFFIX.get(path.suffix.lower()):
        return advice
    try:
        with path.open("rb") as file:
            beginning = file.read(_MOST_NBYTES)
    except OSError:
        return ""
    return next(
        (
            sentence
            for start, magic, sentence in _BY_BYTES
            if beginning[start : start + len(magic)].lower() == magic.lower()
        ),
        "",
    )
