"""Tolerances of one variant and on the task: stated, kept, and gone by."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from tests.cli.conftest import RunCommand

MakeModel = Callable[..., Path]


@pytest.fixture
def package(ortpkg: RunCommand, model: MakeModel, tmp_path: Path) -> Path:
    """Twice, what is 2 % off it, and the opposite; samples of the first."""
    root = tmp_path / "p"
    models = [
        model("double.onnx"),
        model("near.onnx", factor=2.04),
        model("opposite.onnx", factor=-2.0),
    ]
    assert ortpkg("create", root, *(word for each in models for word in ("--cpu", each))).code == 0
    words = ("--name", "s", "--random", "--dim", "N=5", "--batched", "--variant", "double")
    done = ortpkg("samples", "record", root, *words, "--backend", "embedded")
    assert done.code == 0
    assert "recorded what variant 'double' of 'model' gives on CPUExecutionProvider (embedded)" in (
        " ".join(done.err.split())
    )
    return root


def _sample(root: Path) -> dict[str, Any]:
    (sample,) = json.loads((root / "samples/samples.json").read_text())["samples"]
    return dict(sample)


def _run(ortpkg: RunCommand, root: Path, variant: str) -> Any:
    return ortpkg("run", root, "--variant", variant, "--backend", "embedded")


def test_a_tolerance_of_one_variant_loosens_no_other(ortpkg: RunCommand, package: Path) -> None:
    assert _run(ortpkg, package, "near").code == 1
    words = ("samples", "add", package, "--name", "s", "--variant", "near", "--tolerance", "5%")
    before = _sample(package)
    assert ortpkg(*words, "--dry-run").code == 0
    assert _sample(package) == before
    assert ortpkg(*words).code == 0
    assert _sample(package) == {
        **before,
        "variants": {
            "near": {"tolerances": {"y": {"absolute": 0.0, "relative": 0.0, "of_largest": 0.05}}}
        },
    }
    done = _run(ortpkg, package, "near")
    assert done.code == 0
    assert "0.05 of the largest" in done.out
    assert _run(ortpkg, package, "opposite").code == 1
    assert ortpkg("validate", package).code == 0


@pytest.mark.slow
def test_a_tolerance_of_one_variant_goes_before_a_task_of_all(
    ortpkg: RunCommand, package: Path
) -> None:
    words = ("samples", "add", package, "--name", "s")
    assert ortpkg(*words, "--variant", "opposite", "--tolerance", "1000").code == 0
    assert ortpkg(*words, "--task", "class").code == 0
    done = _run(ortpkg, package, "opposite")
    assert done.code == 0
    assert "allowed 1000" in done.out
    done = _run(ortpkg, package, "near")
    assert done.code == 0
    assert "another top class for 0 of 5" in done.out
    assert "WRONG" not in ortpkg("bench", package, "--repeat", "1", "--backend", "embedded").out


@pytest.mark.parametrize("variant", [(), ("--variant", "opposite")], ids=["all", "one variant"])
def test_a_tolerance_that_is_stated_after_a_task_takes_its_place(
    ortpkg: RunCommand, package: Path, variant: tuple[str, ...]
) -> None:
    words = ("samples", "add", package, "--name", "s", *variant)
    assert ortpkg(*words, "--task", "class").code == 0
    assert _run(ortpkg, package, "opposite").code == 1
    assert ortpkg(*words, "--tolerance", "1000").code == 0
    done = _run(ortpkg, package, "opposite")
    assert done.code == 0
    assert "allowed 1000" in done.out
    assert ortpkg(*words, "--task", "class").code == 0
    assert _run(ortpkg, package, "opposite").code == 1


def test_a_tolerance_on_the_task_goes_by_answers(ortpkg: RunCommand, package: Path) -> None:
    words = ("samples", "add", package, "--name", "s")
    assert ortpkg(*words, "--task", "class,10%").code == 0
    assert _sample(package)["task"] == {"output": "y", "same": "class", "error_rate": 0.1}
    done = _run(ortpkg, package, "near")
    assert done.code == 0
    assert "'y' has another top class for 0 of 5 samples" in done.out
    done = _run(ortpkg, package, "opposite")
    assert done.code == 1
    assert "'y' has another top class for 5 of 5 samples (100.0%; at most 10.0% may differ)" in (
        " ".join(done.out.split())
    )
    assert ortpkg(*words, "--variant", "near", "--task", "y=neighbours").code == 0
    assert _sample(package)["variants"]["near"]["task"] == {"output": "y", "same": "neighbours"}
    assert _run(ortpkg, package, "near").code == 0
    report = ortpkg("run", package, "--variant", "near", "--backend", "embedded", "--json").json
    assert report["samples"][0]["task"]["same"] == "neighbours"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--task", "classes"), "kinds are class, neighbours, text"),
        (("--task", "class,200%"), "write KIND, KIND,RATE or OUTPUT=KIND,RATE"),
        (("--task", "z=class"), "the model has no output 'z'"),
        (("--tolerance", "2%", "--variant", "nera"), "'nera'"),
        (("--tolerance", "much%"), "write ABS, ABS,REL or OUTPUT=ABS,REL"),
        ((), "give the inputs, with --input or --random; or a --tolerance or --task"),
    ],
)
def test_wrong_tolerances_are_usage_errors(
    ortpkg: RunCommand, package: Path, words: tuple[str, ...], said: str
) -> None:
    done = ortpkg("samples", "add", package, "--name", "s", *words)
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_bench_says_error_scale_limit_and_the_command_that_states_another(
    ortpkg: RunCommand,
    package: Path,
    warm_processes: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del warm_processes
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "state"))
    words = ("--variant", "near", "--backend", "embedded", "--rounds", "1", "--repeat", "1")
    done = ortpkg("bench", package, *words, "--no-record")
    said = " ".join((done.out + done.err).split())
    assert "y is off by up to" in said
    assert "of its largest number" in said
    assert "cosine" in said
    assert "allowed is 0.0001 and 0.001 of each number" in said
    assert "ortpkg samples add PKG --name s --variant near states another --tolerance" in said
    assert ortpkg("samples", "add", package, "--name", "s", "--task", "class").code == 0
    done = ortpkg("bench", package, *words, "--no-record")
    assert done.code == 0
    assert "accurate" in done.out


@pytest.mark.parametrize(
    ("task", "columns", "rows", "said"),
    [
        ("class", 1, 5, "has one score for each sample: a top class needs two or more"),
        ("neighbours", 3, 2, "has 2 of the 3 samples that an order of neighbours needs"),
        ("neighbours", 1, 5, "has one number for each sample, which has no direction"),
        ("text", 3, 5, "has floating-point numbers: a text needs texts or tokens"),
    ],
)
def test_a_task_that_would_compare_nothing_is_refused(
    ortpkg: RunCommand,
    model: MakeModel,
    tmp_path: Path,
    task: str,
    columns: int,
    rows: int,
    said: str,
) -> None:
    root, width = tmp_path / "p", f"float[N, {columns}]"
    models = [
        model("double.onnx", input_type=width, output_type=width),
        model("opposite.onnx", factor=-2.0, input_type=width, output_type=width),
    ]
    assert ortpkg("create", root, *(word for path in models for word in ("--cpu", path))).code == 0
    inputs = ("--random", "--dim", f"N={rows}", "--batched")
    wishes = ("--variant", "double", "--backend", "embedded")
    record = ("samples", "record", root, "--name", "s", *inputs, *wishes)
    done = ortpkg(*record, "--task", task)
    assert (done.code, said in " ".join(done.err.split())) == (2, True)
    assert ortpkg(*record).code == 0
    done = ortpkg("samples", "add", root, "--name", "s", "--variant", "opposite", "--task", task)
    assert (done.code, said in " ".join(done.err.split())) == (2, True)

    path = root / "samples/samples.json"
    document = json.loads(path.read_text())
    document["samples"][0]["variants"] = {"opposite": {"task": {"output": "y", "same": task}}}
    path.write_text(json.dumps(document))
    (root / "digests.json").unlink()
    done = ortpkg("validate", root)
    assert done.code == 4
    assert "ORT512" in done.out
    assert said in " ".join(done.out.split())
    done = _run(ortpkg, root, "opposite")
    assert done.code == 4
    assert said in " ".join(done.err.split())
    assert _run(ortpkg, root, "double").code == 0


_RANDOM = np.random.default_rng(4)
_WEIGHTS = (_RANDOM.normal(size=(64, 10)) / 8).astype(np.float32)


def _linear(path: Path, nodes: str, **weights: np.ndarray) -> Path:
    """Save a model with inputs of 64 numbers and outputs of 10."""
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[N, 64] x) => (float[N, 10] y)'
    model = onnx.parser.parse_model(f"{text} {{ {nodes} }}")
    for name, array in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    onnx.save(model, path)
    return path


def _eight_bits(scale: float) -> dict[str, np.ndarray]:
    """Weights in 8 bits, and the scale of activations."""
    weight_scale = np.float32(np.abs(_WEIGHTS).max() / 127)
    return {
        "q": np.round(_WEIGHTS / weight_scale).astype(np.int8),
        "qs": np.array(weight_scale),
        "s": np.array(scale, np.float32),
        "z": np.array(0, np.int8),
    }


def test_a_common_offset_hides_no_ruined_calibration(
    ortpkg: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Activations that are clipped to a tenth of their range are wrong, whatever the bias."""
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "state"))
    bias = np.full(10, 20, np.float32)
    eight_bits = """a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z)
        w = DequantizeLinear(q, qs, z) m = MatMul(b, w) y = Add(m, c)"""
    models = [
        _linear(tmp_path / "plain.onnx", "m = MatMul(x, w) y = Add(m, c)", w=_WEIGHTS, c=bias),
        _linear(tmp_path / "ruined.onnx", eight_bits, c=bias, **_eight_bits(0.3 / 127)),
        _linear(tmp_path / "good.onnx", eight_bits, c=bias, **_eight_bits(4 / 127)),
    ]
    root = tmp_path / "p"
    assert ortpkg("create", root, *(word for path in models for word in ("--cpu", path))).code == 0
    words = ("--name", "s", "--random", "--dim", "N=64", "--batched", "--variant", "plain")
    assert ortpkg("samples", "record", root, *words, "--backend", "embedded").code == 0
    assert _run(ortpkg, root, "good").code == 0
    done = _run(ortpkg, root, "ruined")
    assert done.code == 1
    assert "OUTPUTS DO NOT MATCH" in done.out
    assert "of its largest difference from the mean" in " ".join(done.out.split())
    report = ortpkg("run", root, "--variant", "ruined", "--backend", "embedded", "--json").json
    assert report["samples"][0]["matches"] is False
    assert len(report["samples"][0]["faults"]) == 1
    bench = ("--backend", "embedded", "--rounds", "1", "--repeat", "1", "--no-record")
    assert "accurate" in ortpkg("bench", root, *bench, "--variant", "good").out
    done = ortpkg("bench", root, *bench, "--variant", "ruined")
    said = " ".join((done.out + done.err).split())
    assert "of its largest difference from the mean" in said
    assert "samples add PKG --name s --variant ruined states another --tolerance" in said


def test_a_float_model_with_a_bias_in_8_bits_is_judged_as_float(
    ortpkg: RunCommand, tmp_path: Path
) -> None:
    nodes = "m = MatMul(x, w) c = DequantizeLinear(q, s) y = Add(m, c)"
    bias: dict[str, np.ndarray] = {
        "q": np.arange(10, dtype=np.int8),
        "s": np.array(0.1, np.float32),
    }
    models = [
        _linear(tmp_path / "plain.onnx", nodes, w=_WEIGHTS, **bias),
        _linear(tmp_path / "off.onnx", nodes, w=_WEIGHTS * np.float32(1.02), **bias),
    ]
    root = tmp_path / "p"
    assert ortpkg("create", root, *(word for path in models for word in ("--cpu", path))).code == 0
    words = ("--name", "s", "--random", "--dim", "N=16", "--batched", "--variant", "plain")
    assert ortpkg("samples", "record", root, *words, "--backend", "embedded").code == 0
    assert _run(ortpkg, root, "plain").code == 0
    done = _run(ortpkg, root, "off")
    assert done.code == 1
    assert "allowed 0.0001 + 0.001 of it" in done.out
