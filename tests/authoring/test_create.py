"""create and init_package: whole packages from model files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortpkg.authoring.create import add_variant, create, init_package
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import AuthoringError, ModelFileError, ModelNotFoundError, UsageError
from ortpkg.package.integrity.digest_check import check_digests
from ortpkg.package.package_info import Constraints
from ortpkg.package.reader import check_package, open_package
from tests.authoring.conftest import ModelMaker


def manifest_of(root: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    return value


@pytest.mark.requirement("K04")
def test_makes_a_package_of_three_files(tmp_path: Path, make_model: ModelMaker) -> None:
    models = [
        NewVariant.for_cpu(make_model("a")),
        NewVariant.for_gpu(make_model("b")),
        NewVariant.for_npu(make_model("c")),
    ]

    package = create(tmp_path / "p.ortpackage", models)

    (component,) = package.components
    assert (package.name, component.name) == ("p", "model")
    assert {variant.name: variant.constraints for variant in component.variants} == {
        "a": Constraints(ep="CPUExecutionProvider", device="cpu"),
        "b": Constraints(device="gpu"),
        "c": Constraints(device="npu"),
    }
    assert validate(package.root, ignore=["ORT2"]) == ()


@pytest.mark.requirement("K20")
def test_the_manifest_states_the_overall_inputs_and_outputs(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    package = create(tmp_path / "p", [NewVariant.for_cpu(make_model())])

    manifest = manifest_of(package.root)
    assert manifest["inputs"] == [{"name": "x", "type": "tensor(float)", "shape": ["batch", 4]}]
    assert manifest["outputs"] == [{"name": "y", "type": "tensor(float)", "shape": ["batch", 4]}]


@pytest.mark.requirement("K24")
def test_metadata_keeps_the_facts_of_each_variant(tmp_path: Path, make_model: ModelMaker) -> None:
    model = make_model("a", signature="(float16[4] x) => (float16[4] y)")

    package = create(tmp_path / "p", [NewVariant.for_cpu(model)])

    assert dict(package.components[0].variants[0].metadata) == {
        "data_types": ("float16",),
        "quantization": None,
        "opset": 17,
        "nodes": 1,
        "nbytes": model.stat().st_size,
    }


def test_two_files_of_one_name_are_told_apart_by_their_devices(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    models = [
        NewVariant.for_cpu(make_model("cpu/model")),
        NewVariant.for_gpu(make_model("gpu/model")),
    ]

    package = create(tmp_path / "p", models)

    assert [variant.name for variant in package.components[0].variants] == [
        "model-cpu",
        "model-gpu",
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["a", "a"],
            r"there is a variant 'a' already: choose another name, or remove that one first",
        ),
        (
            ["a", "A"],
            r"there is a variant 'A' already \(where case does not count, 'a' is the same\)",
        ),
        (["con"], r"the variant name 'con' is a device's name on Windows: choose another one"),
        (["Metadata.json"], r"the variant name 'Metadata.json' is a document's name"),
        (["a/b"], r"the variant name 'a/b' holds a path separator"),
        ([".."], r"the variant name '\.\.' leads out of its folder"),
        (["\x1b[31m"], r"the variant name '\\x1b\[31m' holds control characters"),
    ],
)
def test_refuses_variant_names_that_are_taken_or_not_portable(
    tmp_path: Path, make_model: ModelMaker, names: list[str], message: str
) -> None:
    model = make_model()

    with pytest.raises(AuthoringError, match=message):
        create(tmp_path / "p", [NewVariant(model=model, name=name) for name in names])

    assert not (tmp_path / "p").exists()


def test_refuses_models_that_differ_unless_forced(tmp_path: Path, make_model: ModelMaker) -> None:
    models = [
        NewVariant(model=make_model("a")),
        NewVariant(model=make_model("b", signature="(float[4] x) => (float[4] y)")),
    ]
    with pytest.raises(
        AuthoringError, match=r"'b' cannot stand for 'a': input 'x' has the rank 1 instead of 2"
    ):
        create(tmp_path / "p", models)
    warnings: list[str] = []

    package = create(tmp_path / "p", models, force=True, notify=warnings.append)

    assert len(package.components[0].variants) == 2
    assert "cannot stand for" in warnings[0]


@pytest.mark.parametrize(
    "signature",
    [
        "(float[batch, 4] z) => (float[batch, 4] y)",
        "(float[4] x) => (float[4] y)",
        "(double[batch, 4] x) => (double[batch, 4] y)",
        "(float[batch, 4] x, float[batch] w) => (float[batch, 4] y)",
        "(float[batch, 8] x) => (float[batch, 8] y)",
        "(float[1, width] x) => (float[1, width] y)",
    ],
    ids=["name", "rank", "type", "count", "fixed size", "free size"],
)
def test_models_beside_each_other_are_judged_alike_whichever_command_brings_them(
    tmp_path: Path, make_model: ModelMaker, signature: str
) -> None:
    first, second = make_model("a"), make_model("b", signature=signature)
    said: dict[str, list[str]] = {"create": [], "add": []}
    create(tmp_path / "q", [NewVariant(model=first, ep="cpu")], notify=lambda _: None)
    ways: dict[str, Callable[[], object]] = {
        "create": lambda: create(
            tmp_path / "p",
            [NewVariant(model=first, ep="cpu"), NewVariant(model=second, ep="cuda")],
            notify=said["create"].append,
        ),
        "add": lambda: add_variant(tmp_path / "q", second, ep="cuda", notify=said["add"].append),
    }
    for name, bring in ways.items():
        try:
            bring()
        except AuthoringError as error:
            said[name].append(f"refused: {error}")

    assert said["create"] == said["add"]
    is_refused = any(text.startswith("refused: ") for text in said["create"])
    assert is_refused == ("float[batch, 8]" not in signature and "width" not in signature)
    assert bool(said["create"]) == ("width" not in signature)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", ModelFileError, "is empty"),
        (b"this is no model", ModelFileError, "is not an ONNX model"),
        (None, ModelNotFoundError, "there is no file"),
    ],
    ids=["empty", "text", "missing"],
)
def test_refuses_a_file_that_is_no_model(
    tmp_path: Path, content: bytes | None, error: type[Exception], message: str
) -> None:
    if content is not None:
        (tmp_path / "a.onnx").write_bytes(content)

    with pytest.raises(error, match=message):
        create(tmp_path / "p", [NewVariant.for_cpu(tmp_path / "a.onnx")])

    assert not (tmp_path / "p").exists()


def test_refuses_no_models(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no model was given"):
        create(tmp_path / "p", [])


def test_refuses_an_unknown_device_with_a_suggestion(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    with pytest.raises(
        UsageError, match=r"device 'gpuu' is none of cpu, gpu, npu \(did you mean 'gpu'\?\)"
    ):
        create(tmp_path / "p", [NewVariant(model=make_model(), device="gpuu")])


def test_refuses_a_place_that_is_taken(tmp_path: Path, make_model: ModelMaker) -> None:
    with pytest.raises(
        AuthoringError, match=r"exists already and is not empty; add to a package with add-variant"
    ):
        create(tmp_path / "models", [NewVariant(model=make_model())])


def test_refuses_a_place_whose_parent_is_missing(tmp_path: Path, make_model: ModelMaker) -> None:
    with pytest.raises(UsageError, match=r"x/p': there is no directory '.*x'"):
        create(tmp_path / "x" / "p", [NewVariant(model=make_model())])


def test_an_empty_package_is_valid(tmp_path: Path) -> None:
    package = init_package(tmp_path / "digits.ortpackage", version="1.2")

    assert (package.name, package.version, package.components) == ("digits", "1.2", ())
    _, findings = check_package(package.root)
    assert [(found.rule, found.severity.value) for found in findings] == [("ORT023", "warning")]
    assert check_digests(package.root) == ()


def test_says_which_variants_onnxruntime_never_selects(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    notes: list[str] = []
    models = [NewVariant.for_cpu(make_model("a")), NewVariant.for_gpu(make_model("b"))]

    create(tmp_path / "p", models, notify=notes.append)
    create(tmp_path / "q", models, form="metadata", notify=notes.append)

    assert notes == [
        "onnxruntime 1.28 and later never select the variant 'b', since no ep is named"
    ]
    create(tmp_path / "other", [NewVariant(model=make_model("b"))], notify=notes.append)
    assert (
        notes[1]
        == "onnxruntime 1.28 and later never select the variant 'b', since no ep is named; one for"
        " the CPU (--cpu MODEL) beside it would be selected"
    )


@pytest.mark.parametrize(
    ("form", "documents"),
    [
        ("universal", {"manifest.json", "models/c/metadata.json"}),
        ("metadata", {"manifest.json", "models/c/metadata.json"}),
        ("component", {"manifest.json", "models/c/component.json"}),
    ],
)
def test_the_documents_of_each_format(
    tmp_path: Path, make_model: ModelMaker, form: str, documents: set[str]
) -> None:
    root = create(
        tmp_path / "p", [NewVariant.for_cpu(make_model("a"))], component="c", form=form
    ).root

    found = {path.relative_to(root).as_posix() for path in root.rglob("*.json")}
    assert found == documents | {"digests.json"}
    assert open_package(root).format == form


def test_a_universal_package_says_everything_twice_but_the_device_of_the_cpu(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    models = [
        NewVariant.for_cpu(make_model("a")),
        NewVariant(model=make_model("b"), ep="cuda", device="gpu"),
    ]
    options = {"session.intra_op_num_threads": "1"}
    models.append(NewVariant(model=make_model("c"), ep="cpu", session_options=options))

    root = create(tmp_path / "p", models, component="c").root

    manifest = manifest_of(root)
    assert (manifest["schema_version"], manifest["model_name"]) == ("1.1000", "p")
    assert (manifest["component_models"], manifest["components"]) == (
        ["c"],
        {"c": "models/c/metadata.json"},
    )
    metadata = json.loads((root / "models/c/metadata.json").read_bytes())
    assert {name: body["constraints"] for name, body in metadata["model_variants"].items()} == {
        "a": {"ep": "CPUExecutionProvider", "device": "cpu"},
        "b": {"ep": "CUDAExecutionProvider", "device": "gpu"},
        "c": {"ep": "CPUExecutionProvider"},
    }
    assert metadata["variants"] == {
        "a": {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"model_file": "a.onnx"}}},
        "b": {
            "ep": "CUDAExecutionProvider",
            "device": "gpu",
            "executor_info": {"ort": {"model_file": "b.onnx"}},
        },
        "c": {
            "ep": "CPUExecutionProvider",
            "executor_info": {"ort": {"model_file": "c.onnx", "session_options": options}},
        },
    }


def test_a_session_option_that_looks_mistyped_is_told(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    model = make_model()
    with pytest.raises(
        UsageError, match=r"'intra_op_num_thread'; did you mean 'session\.intra_op_num_threads'\?"
    ):
        create(
            tmp_path / "p", [NewVariant(model=model, session_options={"intra_op_num_thread": "1"})]
        )

    warnings: list[str] = []
    options = {
        "session.intra_op_num_thread": "1",
        "session.intra_op_num_threads": "1",
        "other.entry": "1",
    }
    create(
        tmp_path / "p",
        [NewVariant(model=model, ep="cpu", session_options=options)],
        notify=warnings.append,
    )
    assert warnings == [
        (
            "the session option 'session.intra_op_num_thread' is not known; did you mean"
            " 'session.intra_op_num_threads'?"
        )
    ]


def test_an_attribute_of_session_options_is_no_session_option(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    model = NewVariant(model=make_model(), session_options={"intra_op_num_threads": "1"})

    with pytest.raises(
        UsageError, match=r"'intra_op_num_threads' is an .*: write 'session\.intra_op_num_threads'"
    ):
        create(tmp_path / "p", [model])


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are Unicode there")
def test_a_name_that_is_no_text_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match=r"q\\udcff.* is not well-formed Unicode"):
        init_package(os.fsdecode(os.fsencode(tmp_path) + b"/q\xff"))
