"""run: the package's samples, the caller's inputs, and what is said when either is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import DIGITS, RunCommand

MakeModel = Callable[..., Path]


@pytest.mark.parametrize("backend", ["auto", "embedded", "onnxruntime"])
def test_samples_run_without_any_option_and_nearly_all_are_right(ortpkg: RunCommand, backend: str) -> None:
    done = ortpkg("run", DIGITS, "--backend", backend)
    assert done.code == 0
    assert "predicted  true" in done.out
    assert "357 of 360 right (99.2 %); outputs match what the package expects" in done.out
    assert "classifier: variant cpu-fp32 on CPUExecutionProvider" in done.err


def test_samples_as_json(ortpkg: RunCommand) -> None:
    (report,) = ortpkg("run", DIGITS, "--json", "--variant", "cpu-int8").json["samples"]
    assert (report["count"], report["matches"]) == (360, True)
    assert report["right"] / report["labelled"] >= 0.97
    assert len(report["results"]) == 360


def test_outputs_that_differ_from_what_the_package_expects_are_a_finding(ortpkg: RunCommand, tmp_path: Path) -> None:
    package = tmp_path / "digits.ortpackage"
    for path in DIGITS.rglob("*"):
        if path.is_file():
            target = package / path.relative_to(DIGITS)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (package / "digests.json").unlink()
    expected = np.load(package / "samples" / "held_out_outputs.npz")["logits"]
    expected[5, 3] += 1
    np.savez(package / "samples" / "held_out_outputs.npz", logits=expected)
    done = ortpkg("run", package)
    assert done.code == 1
    assert "OUTPUTS DO NOT MATCH" in done.out
    assert next(line.split() for line in done.out.splitlines() if " NO " in line)[0] == "5"


def test_a_picture_is_recognized(ortpkg: RunCommand, tmp_path: Path) -> None:
    scan = np.load(DIGITS / "samples" / "held_out_inputs.npz")["image"][3, 0]
    label = np.load(DIGITS / "samples" / "held_out_labels.npz")["labels"][3]
    Image.fromarray((scan * 255 / 16).astype(np.uint8)).save(tmp_path / "scan.png")
    done = ortpkg("run", DIGITS, "--input", f"image={tmp_path / 'scan.png'}")
    assert done.code == 0
    assert f"predicted: {label}" in done.out


def test_outputs_of_own_inputs_are_written(ortpkg: RunCommand, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 8, 8), np.float32))
    done = ortpkg("run", DIGITS, "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npz")
    assert done.code == 0
    assert np.load(tmp_path / "y.npz")["logits"].shape == (2, 10)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--input", "imge=x.npy"], 2, "did you mean 'image'?"),
        (["--input", "image=missing.npy"], 2, "cannot read"),
        (["--input", "image=wrong_rank.npy"], 2, "'image'"),
        (["--input", "image=wrong_type.npy"], 2, "'image'"),
        (["--input", "image=evil.npy"], 2, "pickled Python objects"),
        (["--variant", "cpu-fp23"], 2, "did you mean 'cpu-fp32'?"),
        (["--variant", "cuda"], 3, "'CUDAExecutionProvider' is not available here"),
        (["--device", "npu"], 3, "DEVICE_NOT_PRESENT"),
        (["--output", "y.npz"], 2, "--output needs --input"),
        (["--backend", "nothing"], 3, "nothing"),
    ],
)
def test_what_is_wrong_is_said_in_one_typed_error(
    ortpkg: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("wrong_rank.npy", np.zeros((8, 8), np.float32))
    np.save("wrong_type.npy", np.zeros((1, 1, 8, 8), np.int64))
    np.save("evil.npy", np.array([{}], dtype=object), allow_pickle=True)
    done = ortpkg("run", DIGITS, *words)
    assert done.code == code, done.err
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_package_without_samples_says_which_inputs_it_needs(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    ortpkg("create", tmp_path / "p.ortpackage", "--cpu", model())
    done = ortpkg("run", tmp_path / "p.ortpackage")
    assert done.code == 2
    assert "carries no samples: give --input NAME=FILE for 'x'" in done.err


@pytest.mark.parametrize("backend", ["embedded", "onnxruntime"])
def test_a_model_that_asks_for_too_much_memory_fails_with_a_typed_error(
    ortpkg: RunCommand, tmp_path: Path, backend: str
) -> None:
    import onnx.parser

    text = '<ir_version: 8, opset_import: ["" : 17]> g (int64[1] n) => (float[N] y) { y = ConstantOfShape(n) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "big.onnx")
    ortpkg("create", tmp_path / "p.ortpackage", "--cpu", tmp_path / "big.onnx")
    np.save(tmp_path / "n.npy", np.array([10**12]))
    done = ortpkg("run", tmp_path / "p.ortpackage", "-i", f"n={tmp_path / 'n.npy'}", "--backend", backend)
    assert done.code == 5
    assert "4000000000000" in done.err.replace(",", "")


def test_session_options_that_reach_beyond_the_package_need_trust(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    ortpkg("init", package, "--format", "metadata")
    option = "session.optimized_model_filepath=/tmp/written"
    ortpkg("add-variant", package, model(), "--ep", "cpu", "--session-option", option)
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    done = ortpkg("run", package, "-i", f"x={tmp_path / 'x.npy'}")
    assert done.code == 7
    assert "'session.optimized_model_filepath'" in done.err
    assert "pass --trust" in done.err


def test_two_components_run_as_a_pipeline(ortpkg: RunCommand, model: MakeModel, tmp_path: Path) -> None:
    import onnx.parser

    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] y) => (float[N, 3] z) { z = Neg(y) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "neg.onnx")
    package = tmp_path / "p.ortpackage"
    ortpkg("init", package)
    ortpkg("add-variant", package, model(), "--component", "first", "--ep", "cpu")
    ortpkg("add-variant", package, tmp_path / "neg.onnx", "--component", "second", "--ep", "cpu")
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    done = ortpkg("run", package, "-i", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "o.npz")
    assert done.code == 0, done.err
    assert np.load(tmp_path / "o.npz")["z"].tolist() == [[-2, -2, -2]]
