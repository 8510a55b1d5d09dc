"""add_variant: files copied, constraints filled, siblings compared, documents kept as they were."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import onnx
import pytest

from ortpkg.authoring.create import add_variant, create, init_package
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import (
    AuthoringError,
    ModelFileError,
    ModelNotFoundError,
    PackageBusyError,
    PackageNotFoundError,
    UnknownComponentError,
)
from ortpkg.foundations.storage.package_lock import lock_package
from ortpkg.package.package_info import Constraints, PackageFormat
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import content_of


def constraints_of(root: Path, variant: str) -> Constraints:
    body = json.loads((root / "models/model/metadata.json").read_bytes())["model_variants"][
        variant
    ]["constraints"]
    return Constraints(**body)


@pytest.mark.requirement("K18")
def test_changes_the_metadata_of_the_component_and_digests_only(
    package: Path, make_model: ModelMaker
) -> None:
    before = content_of(package)

    add_variant(package, make_model("b"), ep="cuda")

    after = content_of(package)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed == {"models/model/metadata.json", "models/model/b/b.onnx", "digests.json"}


@pytest.mark.requirement("K24")
def test_metadata_gains_the_facts_of_the_new_variant(
    package: Path, make_model_with_data: ModelMaker
) -> None:
    model = make_model_with_data("big")

    info = add_variant(package, model, variant="full", ep="cpu")

    variant = info.components[0].variants[1]
    assert (variant.name, variant.constraints.ep) == ("full", "CPUExecutionProvider")
    assert variant.metadata["data_types"] == ("float",)
    assert variant.metadata["nbytes"] == model.stat().st_size + 64


def test_the_first_variant_makes_the_component_and_the_overall_values(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    init_package(tmp_path / "p")

    info = add_variant(tmp_path / "p", make_model("b"), component="encoder")

    assert [component.name for component in info.components] == ["encoder"]
    assert [value.name for value in (*info.inputs, *info.outputs)] == ["x", "y"]


def test_external_data_in_sub_folders_comes_along(
    package: Path, make_model_with_data: ModelMaker
) -> None:
    model = make_model_with_data("big", location="data/w/weights.bin")

    add_variant(package, model)

    copied = package / "models/model/big/data/w/weights.bin"
    assert copied.read_bytes() == (model.parent / "data/w/weights.bin").read_bytes()
    assert validate(package, ignore=["ORT2"]) == ()


@pytest.mark.parametrize(
    "location", ["../weights.bin", "/etc/passwd", "C:\\weights.bin", "a/../../weights.bin"]
)
def test_refuses_external_data_outside_the_folder_of_the_model(
    package: Path, make_model_with_data: ModelMaker, tmp_path: Path, location: str
) -> None:
    model = make_model_with_data("big", location="inside.bin")
    proto = onnx.load(model, load_external_data=False)
    proto.graph.initializer[0].external_data[0].value = location
    onnx.save(proto, model)
    before = content_of(package)

    with pytest.raises(
        ModelFileError,
        match=r"which (leaves the model's folder|is an absolute path|has a backslash)",
    ):
        add_variant(package, model)

    assert content_of(package) == before


def test_refuses_missing_external_data(package: Path, make_model_with_data: ModelMaker) -> None:
    model = make_model_with_data("big")
    (model.parent / "weights.bin").unlink()

    with pytest.raises(
        ModelNotFoundError, match=r"the model's data file 'weights.bin' does not exist"
    ):
        add_variant(package, model)


def test_refuses_external_data_that_is_too_short(
    package: Path, make_model_with_data: ModelMaker
) -> None:
    model = make_model_with_data("big", nbytes=63)

    with pytest.raises(ModelFileError, match=r"'weights.bin' is too short: 63 bytes of 64 needed"):
        add_variant(package, model)


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_refuses_external_data_behind_a_symbolic_link_of_somebody_else(
    package: Path,
    make_model_with_data: ModelMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    linked: str,
) -> None:
    model = make_model_with_data("big", location="data/weights.bin")
    place = model.parent / "data" if linked == "folder" else model.parent / "data/weights.bin"
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")

    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(
        ModelFileError,
        match=r"'data/weights.bin' is a symbolic link that leaves .*made by somebody",
    ):
        add_variant(package, model)


@pytest.mark.requirement("K11")
def test_constraints_come_from_the_metadata_of_a_compiled_model(
    package: Path, make_context_model: ModelMaker
) -> None:
    model = make_context_model(
        "net_ctx", **{"ep_compatibility_info.QNNExecutionProvider": "soc=60;v=73"}
    )

    add_variant(package, model, device="npu")

    assert constraints_of(package, "net_ctx") == Constraints(
        ep="QNNExecutionProvider",
        device="npu",
        architecture="v73",
        ep_compatibility_info="soc=60;v=73",
    )
    assert (package / "models/model/net_ctx/net_qnn.bin").read_bytes() == b"compiled"


@pytest.mark.parametrize("embedded", [True, False])
def test_the_source_of_a_context_node_names_the_ep(
    package: Path, make_context_model: ModelMaker, embedded: bool
) -> None:
    add_variant(package, make_context_model("net", source="qnn", embedded=embedded))

    assert constraints_of(package, "net").ep == "QNNExecutionProvider"


def test_flags_win_over_the_model_and_the_contradiction_is_said(
    package: Path, make_context_model: ModelMaker
) -> None:
    told: list[str] = []

    add_variant(
        package, make_context_model("net"), ep="openvino", architecture="x", notify=told.append
    )

    assert constraints_of(package, "net") == Constraints(
        ep="OpenVINOExecutionProvider", architecture="x"
    )
    assert len(told) == 1
    assert (
        "ep is 'OpenVINOExecutionProvider', but the model says that it was compiled by 'QNNExec"
        in told[0]
    )


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ("x" * (1 << 20) + "y", "a string has more than 1048576 characters"),
        ("\udc80", "is not well-formed Unicode"),
    ],
    ids=["too long", "no text"],
)
def test_refuses_what_would_make_a_document_unreadable(
    package: Path, make_model: ModelMaker, info: str, message: str
) -> None:
    before = content_of(package)

    with pytest.raises(
        AuthoringError, match=rf"'models/model/metadata.json' would be wrong: .*{message}"
    ):
        add_variant(package, make_model("b"), ep="cuda", compatibility_info=info)

    assert content_of(package) == before


def test_an_unknown_ep_is_kept_with_a_warning_and_a_suggestion(
    package: Path, make_model: ModelMaker
) -> None:
    told: list[str] = []

    add_variant(package, make_model("b"), ep="openvnio", notify=told.append)

    assert constraints_of(package, "b").ep == "openvnio"
    assert "did you mean 'OpenVINOExecutionProvider'?" in told[0]


def test_an_ep_of_our_own_is_no_unknown_one(package: Path, make_model: ModelMaker) -> None:
    told: list[str] = []

    add_variant(package, make_model("b"), ep="llvm", notify=told.append)

    assert constraints_of(package, "b").ep == "LLVMExecutionProvider"
    assert not [each for each in told if "is not an execution provider" in each]


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        (
            "(float[batch, 4] z) => (float[batch, 4] y)",
            r"its inputs come under other names: 'z' instead of 'x'",
        ),
        (
            "(float[4] x) => (float[4] y)",
            r"input 'x' has the rank 1 instead of 2; output 'y' has the rank 1",
        ),
        (
            "(double[b, 4] x) => (double[b, 4] y)",
            r"input 'x' has the type 'tensor\(double\)' instead of",
        ),
        (
            "(float[b, 4] x, float[b] w) => (float[b, 4] y)",
            r"its inputs come under other names: 'x', 'w' instead",
        ),
    ],
)
def test_refuses_a_variant_whose_inputs_or_outputs_differ(
    package: Path, make_model: ModelMaker, signature: str, message: str
) -> None:
    before = content_of(package)
    model = make_model("b", signature=signature)

    with pytest.raises(AuthoringError, match=rf"variant 'b' cannot stand for 'a': {message}"):
        add_variant(package, model)

    assert content_of(package) == before
    assert len(add_variant(package, model, force=True).components[0].variants) == 2


def test_a_fixed_dimension_where_another_is_symbolic_is_fine(
    package: Path, make_model: ModelMaker
) -> None:
    info = add_variant(package, make_model("b", signature="(float[1, 4] x) => (float[1, 4] y)"))

    assert len(info.components[0].variants) == 2


def test_warns_of_dimensions_that_are_fixed_at_different_sizes(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = create(tmp_path / "p", [NewVariant(model=make_model("a"), ep="cpu")]).root
    wider = make_model("b", signature="(float[batch, 256] x) => (float[batch, 256] y)")
    told: list[str] = []

    add_variant(root, wider, ep="cuda", notify=told.append)

    said = [each.message for each in validate(root) if each.rule == "ORT121"]
    assert (
        said[0]
        == "variant 'b' differs from 'a': input 'x' has the fixed dimension 256 at axis 1, not 4"
    )
    assert told == [f"{each}; no feed suits both" for each in said]
    assert len(told) == 2


@pytest.mark.parametrize("form", PackageFormat)
def test_warns_of_a_second_component_that_old_releases_refuse(
    form: PackageFormat, tmp_path: Path, make_model: ModelMaker
) -> None:
    root = create(tmp_path / "p", [NewVariant(model=make_model("a"), ep="cpu")], form=form).root
    told: list[str] = []

    add_variant(root, make_model("b"), component="model", ep="cuda", notify=told.append)
    assert told == []
    add_variant(root, make_model("c"), component="second", ep="cpu", notify=told.append)

    is_said = form is not PackageFormat.COMPONENT
    assert told == [
        "component model 'second' is new; the package had 'model'",
        *["onnxruntime 1.26 and 1.27 open packages with one component model only"] * is_said,
    ]
    assert ("ORT704" in {each.rule for each in validate(root)}) == is_said


@pytest.mark.parametrize("share_weights", [False, True])
def test_the_only_component_is_the_default(
    tmp_path: Path, make_model: ModelMaker, share_weights: bool
) -> None:
    root = create(
        tmp_path / "p", [NewVariant.for_cpu(make_model("a"))], component="classifier"
    ).root

    info = add_variant(root, make_model("b"), ep="cuda", share_weights=share_weights)

    (component,) = info.components
    assert (component.name, [each.name for each in component.variants]) == (
        "classifier",
        ["a", "b"],
    )


def test_an_empty_package_gets_a_component_of_the_usual_name(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    init_package(tmp_path / "p")

    info = add_variant(tmp_path / "p", make_model("b"), ep="cpu")

    assert [each.name for each in info.components] == ["model"]


def test_refuses_to_guess_among_several_components(tmp_path: Path, make_model: ModelMaker) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))], component="encoder").root
    add_variant(root, make_model("b"), component="decoder", ep="cpu")
    before = content_of(root)

    with pytest.raises(
        UnknownComponentError, match=r"2 component models \('encoder', 'decoder'\): name one"
    ) as caught:
        add_variant(root, make_model("c"), ep="cuda")

    assert caught.value.valid_names == ("encoder", "decoder")
    assert content_of(root) == before


def test_says_which_component_a_mistyped_name_may_have_meant(
    package: Path, make_model: ModelMaker
) -> None:
    told: list[str] = []

    add_variant(package, make_model("b"), component="modle", ep="cpu", notify=told.append)

    assert (
        told[0] == "component model 'modle' is new (did you mean 'model'?); the package had 'model'"
    )


def test_refuses_a_name_that_is_taken(package: Path, make_model: ModelMaker) -> None:
    with pytest.raises(
        AuthoringError, match=r"there is a variant 'a' already: choose another name, or remove that"
    ):
        add_variant(package, make_model("b"), variant="a")


def test_refuses_what_is_no_package(tmp_path: Path, make_model: ModelMaker) -> None:
    with pytest.raises(PackageNotFoundError, match="does not exist"):
        add_variant(tmp_path / "nothing", make_model("b"))


def test_keeps_order_unknown_keys_and_the_form_of_the_documents(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = tmp_path / "p"
    (root / "models/m/old").mkdir(parents=True)
    make_model("old").rename(root / "models/m/old/old.onnx")
    manifest = {
        "x-vendor": {"b": 1, "a": [1.5]},
        "component_models": {"m": {"note": "é"}},
        "model_name": "p",
    }
    metadata = {
        "z": 1,
        "model_variants": {"old": {"file": "old.onnx", "x": None}},
        "component_model_name": "m",
    }
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (root / "models/m/metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    manifest_bytes = (root / "manifest.json").read_bytes()

    add_variant(root, make_model("new"), component="m")

    assert (root / "manifest.json").read_bytes() == manifest_bytes
    edited = json.loads((root / "models/m/metadata.json").read_bytes())
    assert list(edited) == ["z", "model_variants", "component_model_name"]
    assert edited["model_variants"]["old"] == {"file": "old.onnx", "x": None}
    assert edited["model_variants"]["new"]["file"] == "new.onnx"


@pytest.mark.parametrize("declared", [{"component_models": {}}, {"component_models": []}, {}])
@pytest.mark.requirement("K03")
def test_a_component_joins_in_the_way_that_the_manifest_lists_components(
    tmp_path: Path, make_model: ModelMaker, declared: dict[str, object]
) -> None:
    root = tmp_path / "p"
    root.mkdir()
    (root / "manifest.json").write_text(json.dumps({"model_name": "p", **declared}))

    info = add_variant(root, make_model("b"))

    manifest = json.loads((root / "manifest.json").read_bytes())
    assert [component.name for component in info.components] == ["model"]
    assert manifest.get("component_models") == ({"model": {}} if declared == {"component_models": {}} else
                                                ["model"] if declared else None)  # fmt: skip
    assert "inputs" in manifest


def make_genai_folder(folder: Path, make_model: ModelMaker) -> Path:
    folder.mkdir()
    for name in ("decoder", "embedding"):
        make_model(name).rename(folder / f"{name}.onnx")
    config = {
        "model": {
            "decoder": {"filename": "decoder.onnx"},
            "embedding": {"filename": "embedding.onnx"},
        }
    }
    (folder / "genai_config.json").write_text(json.dumps(config))
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer/vocab.txt").write_text("a b")
    return folder


@pytest.mark.requirement("K02")
def test_a_genai_folder_becomes_a_variant_that_is_a_set_of_files(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    init_package(tmp_path / "p")
    folder = make_genai_folder(tmp_path / "phi4-cpu", make_model)

    info = add_variant(tmp_path / "p", folder, ep="cpu")

    variant = info.components[0].variants[0]
    assert (variant.name, variant.model_path) == ("phi4-cpu", None)
    assert content_of(variant.directory) == content_of(folder)
    assert validate(info.root, ignore=["ORT2"]) == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
@pytest.mark.parametrize(
    ("make_odd", "message"),
    [
        (
            lambda path: path.symlink_to("."),
            "is a symbolic link to a folder: a package holds plain files only",
        ),
        (
            os.mkfifo if hasattr(os, "mkfifo") else None,
            "is not a regular file: a package holds plain files only",
        ),
    ],
    ids=["symlink", "pipe"],
)
def test_refuses_a_folder_with_links_or_special_files(
    package: Path, tmp_path: Path, make_model: ModelMaker, make_odd: object, message: str
) -> None:
    folder = make_genai_folder(tmp_path / "genai", make_model)
    assert callable(make_odd)
    make_odd(folder / "odd")

    with pytest.raises(AuthoringError, match=message):
        add_variant(package, folder)


def test_refuses_a_folder_with_several_models_or_none(
    package: Path, tmp_path: Path, make_model: ModelMaker
) -> None:
    folder = make_genai_folder(tmp_path / "genai", make_model)
    (folder / "genai_config.json").unlink()
    with pytest.raises(
        AuthoringError,
        match=r"holds 2 ONNX files \('decoder.onnx', 'embedding.onnx'\): pass the one",
    ):
        add_variant(package, folder)

    with pytest.raises(
        AuthoringError, match=r"holds neither an ONNX file nor a genai_config\.json"
    ):
        add_variant(package, folder / "tokenizer")


def test_refuses_a_folder_that_holds_the_package(package: Path, tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match="holds the package itself"):
        add_variant(package, tmp_path)


def test_two_that_add_at_once_both_succeed(package: Path, make_model: ModelMaker) -> None:
    models = [make_model(name) for name in ("b", "c", "d")]
    errors: list[Exception] = []

    def add(model: Path) -> None:
        try:
            add_variant(package, model, notify=lambda text: None)
        except Exception as error:  # noqa: BLE001 - reported by the test
            errors.append(error)

    threads = [threading.Thread(target=add, args=[model]) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    variants = json.loads((package / "models/model/metadata.json").read_bytes())["model_variants"]
    assert sorted(variants) == ["a", "b", "c", "d"]
    assert validate(package, ignore=["ORT2"]) == ()


def test_waiting_for_another_command_says_for_whom_and_gives_up(
    package: Path, make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    before = content_of(package)
    with (
        lock_package(package),
        pytest.raises(
            PackageBusyError, match=r"is still being changed by .*\(process \d+\)"
        ) as caught,
        lock_package(package, timeout_s=0.1, on_wait=told.append),
    ):
        pytest.fail("the lock was given twice")

    assert f"(process {os.getpid()})" in caught.value.holder
    assert told[0].startswith("waiting for ")
    assert content_of(package) == before
    add_variant(package, make_model("b"))
