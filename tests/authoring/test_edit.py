"""edit: facts, order, options and models, in their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from ortpkg.authoring.create import add_variant, create
from ortpkg.authoring.edit import PackageEdits, edit
from ortpkg.authoring.merge import merge
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import AuthoringError, Severity, UnknownComponentError, UsageError
from ortpkg.package.integrity.digest_check import check_digests
from ortpkg.package.package_info import PackageFormat, PackageInfo, version_of
from ortpkg.package.reader import open_package
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import content_of


@pytest.fixture(params=list(PackageFormat))
def package(request: pytest.FixtureRequest, tmp_path: Path, make_model: ModelMaker) -> Path:
    """Variants ``a`` (cpu), ``b`` (cuda) and ``c`` (qnn)."""
    models = [
        NewVariant(model=make_model(name), ep=ep)
        for name, ep in (("a", "cpu"), ("b", "cuda"), ("c", "qnn"))
    ]
    root = create(
        tmp_path / "p", models, form=request.param, version="1", notify=lambda _: None
    ).root
    manifest = json.loads((root / "manifest.json").read_bytes())
    assert isinstance(manifest, dict)
    return root


def changed(root: Path, **edits: Any) -> PackageInfo:
    info = edit(root, PackageEdits(**edits), notify=lambda _: None)
    assert check_digests(root) == ()
    assert [str(each) for each in validate(root) if each.severity is Severity.ERROR] == []
    return info


def names(info: PackageInfo) -> list[str]:
    return [variant.name for variant in info.components[0].variants]


def test_states_what_a_package_says_of_itself(package: Path) -> None:
    models = content_of(package / "models")
    info = changed(package, name="new", version="2.0", description="It does.", license="Apache-2.0")
    assert (info.name, info.version, info.description) == ("new", "2.0", "It does.")
    assert info.additional_metadata["license"] == "Apache-2.0"
    assert content_of(package / "models") == models


def test_a_variant_has_a_version_of_its_own(package: Path, make_model: ModelMaker) -> None:
    def versions(info: PackageInfo) -> list[str | None]:
        return [version_of(variant, info) for variant in info.components[0].variants]

    before = open_package(package)
    info = changed(package, variant="b", variant_version="1.1")
    assert versions(info) == ["1", "1.1", "1"]
    assert [each.name for each in info.components[0].variants] == ["a", "b", "c"]
    kept = {
        key: value
        for key, value in info.components[0].variants[1].metadata.items()
        if key != "version"
    }
    assert kept == before.components[0].variants[1].metadata
    assert versions(changed(package, version="2")) == ["2", "1.1", "2"]
    assert versions(changed(package, variant="b", model=make_model("other", producer="other"))) == [
        "2",
        "1.1",
        "2",
    ]
    assert versions(changed(package, variant="b", variant_version="")) == ["2", "2", "2"]
    with pytest.raises(AuthoringError, match="says all of this already"):
        changed(package, variant="b", variant_version="")
    with pytest.raises(UsageError, match="belong to a variant: name it"):
        changed(package, variant_version="3")


def test_tells_whose_version_changes_with_the_packages(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    roots = [
        create(
            tmp_path / name, [NewVariant.for_cpu(make_model(name))], name="m", version=version
        ).root
        for name, version in (("a", "1.0"), ("b", "1.1"))
    ]
    told: list[str] = []
    edit(roots[0], PackageEdits(version="1.5"), notify=told.append)
    assert told == []
    merge(*roots, notify=lambda _: None)

    edit(roots[0], PackageEdits(version="2.0"), notify=told.append)

    assert told == ["the version of 'a' is '2.0' now, and was '1.5'; the others keep their own"]


def test_an_empty_text_takes_something_out(package: Path) -> None:
    before = (package / "manifest.json").read_bytes()
    changed(package, description="It does.", license="MIT")
    changed(package, description="", license="")
    assert json.loads((package / "manifest.json").read_bytes()) == json.loads(before)
    assert changed(package, version="").version is None


def test_orders_variants(package: Path) -> None:
    assert names(changed(package, order=["c", "a"])) == ["c", "a", "b"]
    with pytest.raises(AuthoringError, match="says all of this already; nothing was changed"):
        changed(package, order=["c"])


def test_sets_and_removes_options(package: Path) -> None:
    options = {"session.intra_op_num_threads": "2", "session.log_id": "x"}
    changed(package, variant="b", session_options=options, provider_options={"device_id": "1"})
    changed(
        package, variant="b", session_options={"session.log_id": "y"}, removed_options=["device_id"]
    )

    _, b, _ = open_package(package).components[0].variants
    assert dict(b.session_options) == {"session.intra_op_num_threads": "2", "session.log_id": "y"}
    assert dict(b.provider_options) == {}
    with pytest.raises(
        UsageError, match=r"'b' sets no option 'session\.log_ids' \(did you mean 'session\.log_id'"
    ):
        changed(package, variant="b", removed_options=["session.log_ids"])


def test_a_model_is_replaced_in_its_place(package: Path, make_model: ModelMaker) -> None:
    changed(package, variant="b", session_options={"session.log_id": "x"})
    new = make_model("new", producer="other")
    before = open_package(package).components[0].variants

    info = changed(package, variant="b", model=new)

    assert names(info) == ["a", "b", "c"]
    after = info.components[0].variants
    assert after[1].model_path is not None
    assert after[1].model_path.read_bytes() == new.read_bytes()
    assert after[1].constraints == before[1].constraints
    assert dict(after[1].session_options) == {"session.log_id": "x"}
    assert before[1].model_path is not None
    assert not before[1].model_path.exists()
    assert [each.model_path for each in (after[0], after[2])] == [
        each.model_path for each in (before[0], before[2])
    ]
    with pytest.raises(AuthoringError, match="says all of this already"):
        changed(package, variant="b", model=new)
    # And again: the first folder's name is free now.
    assert names(changed(package, variant="b", model=make_model("third", producer="third"))) == [
        "a",
        "b",
        "c",
    ]


def test_a_model_that_does_not_fit_is_refused(package: Path, make_model: ModelMaker) -> None:
    other = make_model("other", signature="(float[batch, 4, 4] x) => (float[batch, 4, 4] y)")
    before = content_of(package)
    with pytest.raises(
        AuthoringError, match=r"cannot stand for 'a': .*rank 3 instead of 2.* \(force takes it"
    ):
        changed(package, variant="b", model=other)
    assert content_of(package) == before
    edit(package, PackageEdits(variant="b", model=other), force=True, notify=lambda _: None)


@pytest.mark.parametrize(
    ("count", "other"), [(1, "the one that it replaces"), (2, "'a'")], ids=["alone", "beside one"]
)
def test_warns_of_a_model_that_fixes_a_dimension_at_another_size(
    tmp_path: Path, make_model: ModelMaker, count: int, other: str
) -> None:
    models = [NewVariant(model=make_model(name), ep="cpu") for name in ("a", "b")[:count]]
    root = create(tmp_path / "p", models, notify=lambda _: None).root
    name = models[-1].name or models[-1].model.stem
    wider = make_model("wider", signature="(float[batch, 8] x) => (float[batch, 8] y)")
    free = make_model("free", signature="(float[1, width] x) => (float[1, width] y)")
    warnings: list[str] = []

    edit(root, PackageEdits(variant=name, model=wider), notify=warnings.append)

    assert warnings == [
        f"the new model of variant '{name}' differs from {other}: {end} has the fixed dimension 8"
        " at axis 1, not 4; no feed suits both"
        for end in ("input 'x'", "output 'y'")
    ]
    warnings.clear()
    edit(root, PackageEdits(variant=name, model=free), notify=warnings.append)
    assert warnings == []


def test_the_only_model_keeps_its_inputs_and_outputs(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))], notify=lambda _: None).root
    other = make_model("other", signature="(float[batch, 4, 4] x) => (float[batch, 4, 4] y)")
    before = content_of(root)
    message = (
        r"cannot stand for the one that it replaces: .*; what manifest\.json may say is of that"
        r" \(force takes it"
    )
    with pytest.raises(AuthoringError, match=message):
        changed(root, variant="a", model=other)
    assert content_of(root) == before

    warnings: list[str] = []
    edit(root, PackageEdits(variant="a", model=other), force=True, notify=warnings.append)
    assert "cannot stand for the one that it replaces" in warnings[0]


def test_everything_is_one_change(package: Path, make_model: ModelMaker) -> None:
    new = make_model("new", producer="other")
    info = changed(
        package,
        name="n",
        order=["b"],
        variant="b",
        model=new,
        session_options={"session.log_id": "x"},
    )
    assert (info.name, names(info)) == ("n", ["b", "a", "c"])
    first = info.components[0].variants[0]
    assert dict(first.session_options) == {"session.log_id": "x"}
    assert first.model_path is not None
    assert first.model_path.read_bytes() == new.read_bytes()


@pytest.mark.parametrize(
    ("edits", "error", "message"),
    [
        ({}, UsageError, "nothing to change was named"),
        ({"variant": "a"}, UsageError, "nothing to change was named"),
        ({"session_options": {"session.log_id": "x"}}, UsageError, "belong to a variant: name it"),
        (
            {"variant": "a", "version": "2"},
            UsageError,
            "variant 'a' is named, but nothing of it is to change",
        ),
        ({"name": ""}, UsageError, "it cannot be taken out"),
        ({"order": ["a", "a"]}, UsageError, "names a variant twice"),
        ({"order": ["d"]}, UnknownComponentError, "no variant 'd'"),
        ({"variant": "d", "model": Path("x")}, UnknownComponentError, "no variant 'd'"),
        ({"component": "x", "order": ["a"]}, UnknownComponentError, "no component model 'x'"),
        (
            {"variant": "a", "session_options": {"log_id": "x"}},
            UsageError,
            r"write 'session\.log_id'",
        ),
        (
            {"variant": "a", "session_options": {"ep.context_file_path": "x"}},
            UsageError,
            "add the variant anew",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    package: Path, edits: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = content_of(package)
    with pytest.raises(error, match=message):
        changed(package, **edits)
    assert content_of(package) == before


def test_several_components_need_a_name(package: Path, make_model: ModelMaker) -> None:
    add_variant(package, make_model("a"), component="second", ep="cpu", notify=lambda _: None)
    with pytest.raises(UnknownComponentError, match="name one"):
        changed(package, order=["b"])
    assert names(changed(package, component="model", order=["b"])) == ["b", "a", "c"]


def _context_model(path: Path, architecture: str) -> Path:
    """A compiled model that says for which hardware; "" for a plain model."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    node = onnx.helper.make_node("Abs", ["x"], ["y"])
    if architecture:
        node = onnx.helper.make_node(
            "EPContext",
            ["x"],
            ["y"],
            domain="com.microsoft",
            embed_mode=1,
            ep_cache_context=f"for {architecture}".encode(),
            source="OpenVINOExecutionProvider",
            hardware_architecture=architecture,
        )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    graph = onnx.helper.make_graph([node], "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


@pytest.mark.parametrize("new", ["npu-9", ""])
@pytest.mark.parametrize("stated", [None, "own"])
def test_a_new_model_brings_its_architecture_and_takes_that_of_the_old_one_along(
    tmp_path: Path, stated: str | None, new: str
) -> None:
    old = _context_model(tmp_path / "old.onnx", "npu-3")
    root = tmp_path / "p.ortpackage"
    wanted = NewVariant(
        model=old, name="v", ep="OpenVINOExecutionProvider", device="npu", architecture=stated
    )
    create(root, [wanted])

    edits = PackageEdits(variant="v", model=_context_model(tmp_path / "new.onnx", new))
    package = edit(root, edits)

    (variant,) = package.components[0].variants
    assert variant.constraints.architecture == (new or stated)
