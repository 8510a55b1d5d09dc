"""merge: what was delivered separately becomes one package, and contradictions are all named."""

from __future__ import annotations

import errno
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.api.model_package import ModelPackage
from ortpkg.authoring import written_package
from ortpkg.authoring.create import add_variant, create
from ortpkg.authoring.diff import diff
from ortpkg.authoring.merge import merge
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import (
    AuthoringError,
    DigestMismatchError,
    PackageFormatError,
    ResultUnreadableError,
    Severity,
)
from ortpkg.package.integrity.digest_check import check_digests, compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.package_info import PackageFormat, PackageInfo, version_of
from ortpkg.package.sidecar import DIGESTS_FILE, SAMPLES
from ortpkg.selection.matching.verdict import ReasonCode
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import content_of

FORMS = list(PackageFormat)


def names_of(package: PackageInfo) -> dict[str, list[str]]:
    return {each.name: [variant.name for variant in each.variants] for each in package.components}


def errors_of(root: Path) -> list[str]:
    return [str(each) for each in validate(root) if each.severity is Severity.ERROR]


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


def record(root: Path) -> None:
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))


@pytest.mark.requirement("K19")
@pytest.mark.parametrize(("first", "second"), list(itertools.product(FORMS, FORMS)))
def test_variants_of_one_component_come_together(
    tmp_path: Path,
    make_model: ModelMaker,
    make_model_with_data: ModelMaker,
    first: str,
    second: str,
) -> None:
    a = create(tmp_path / "a", [NewVariant.for_cpu(make_model("cpu"))], name="m", form=first)
    models = [
        NewVariant(model=make_model_with_data("big"), ep="cuda", device="gpu"),
        NewVariant(
            model=make_model("npu"),
            ep="qnn",
            architecture="v73",
            provider_options={"backend_type": "htp"},
        ),
    ]
    b = create(tmp_path / "b", models, name="m", form=second)

    merged = merge(a.root, b.root, output=tmp_path / "c")
    merge(a.root, b.root)

    assert merged.format is PackageFormat(first)
    assert names_of(merged) == {"model": ["cpu", "big", "npu"]}
    for ours, theirs in zip(
        b.components[0].variants, merged.components[0].variants[1:], strict=True
    ):
        for what in ("constraints", "provider_options", "metadata"):
            assert getattr(theirs, what) == getattr(ours, what), what
    assert errors_of(merged.root) == []
    assert content_of(a.root) == content_of(merged.root)


@pytest.mark.requirement("K19")
def test_what_both_have_is_there_once(tmp_path: Path, make_model: ModelMaker) -> None:
    common = NewVariant.for_cpu(make_model("cpu"))
    a = create(tmp_path / "a", [common, NewVariant(model=make_model("x"), ep="cuda")], name="m")
    b = create(
        tmp_path / "b",
        [common, NewVariant(model=make_model("y"), ep="qnn")],
        name="m",
        form="component",
    )

    merged = merge(a.root, b.root, output=tmp_path / "c")

    assert names_of(merged) == {"model": ["cpu", "x", "y"]}
    with pytest.raises(AuthoringError, match=r"has all of .* already; nothing was changed"):
        merge(merged.root, b.root)


def test_no_device_and_the_cpu_are_the_same_to_the_cpu_provider(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    model = make_model("same")
    a = create(tmp_path / "a", [NewVariant(model=model, ep="cpu")], name="m", form="metadata").root
    b = create(tmp_path / "b", [NewVariant.for_cpu(model)], name="m", form="metadata").root

    assert diff(a, b).is_equal
    assert names_of(merge(a, b, output=tmp_path / "both")) == {"model": ["same"]}


def test_components_of_other_names_join(tmp_path: Path, make_model: ModelMaker) -> None:
    a = create(tmp_path / "a", [NewVariant.for_cpu(make_model("e"))], component="encoder", name="m")
    b = create(tmp_path / "b", [NewVariant.for_cpu(make_model("d"))], component="decoder", name="m")
    notes: list[str] = []

    merged = merge(a.root, b.root, notify=notes.append)

    assert names_of(merged) == {"encoder": ["e"], "decoder": ["d"]}
    assert notes == ["onnxruntime 1.26 and 1.27 open packages with one component model only"]
    assert errors_of(merged.root) == []


@pytest.mark.parametrize(("first", "second"), list(itertools.product(FORMS, FORMS)))
def test_what_is_stated_of_a_component_joins_with_it(
    tmp_path: Path, make_model: ModelMaker, first: PackageFormat, second: PackageFormat
) -> None:
    for name, form in (("encoder", first), ("decoder", second)):
        create(
            tmp_path / name,
            [NewVariant.for_cpu(make_model(name))],
            component=name,
            name="m",
            form=form,
        )
    [document] = (tmp_path / "decoder/models/decoder").glob("*.json")
    write(document, json.loads(document.read_text()) | {"additional_metadata": {"by": "ann"}})
    record(tmp_path / "decoder")

    merged = merge(tmp_path / "encoder", tmp_path / "decoder")

    decoder = merged.component("decoder")
    assert decoder is not None
    assert decoder.additional_metadata["by"] == "ann"
    assert errors_of(merged.root) == []


@pytest.mark.requirement("K19")
def test_all_contradictions_are_named_and_nothing_changes(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    a = create(
        tmp_path / "a",
        [NewVariant.for_cpu(make_model("cpu")), NewVariant(model=make_model("same"), ep="cuda")],
        name="m",
        version="1",
    ).root
    other = "(float[batch, 5, 5] x) => (float[batch, 5, 5] y)"
    changed = make_model("cpu", producer="changed")
    models = [NewVariant.for_cpu(changed), NewVariant(model=make_model("same"), ep="qnn")]
    b = create(tmp_path / "b", models, name="m", version="2").root
    add_variant(
        b, make_model("more", signature=other), ep="openvino", force=True, notify=lambda _: None
    )
    for root, value in ((a, 1), (b, 2)):
        np.savez(root / "in.npz", x=np.full((1, 4), value, np.float32))
        (root / "samples").mkdir()
        (root / "in.npz").rename(root / "samples/in.npz")
        sample = {"name": "s", "inputs": "in.npz", "batch_axis": 0 if root == a else None}
        write(root / "samples/samples.json", {"schema_version": "1.0", "samples": [sample]})
        record(root)
    before = content_of(a)

    with pytest.raises(AuthoringError) as refused:
        merge(a, b, notify=lambda _: None)

    versions = "(versions '1' and '2')"
    assert str(refused.value).splitlines() == [
        "the packages contradict each other, and nothing was merged:",
        "  variant 'cpu' of component model 'model' is in both packages, and the models differ "
        + versions,
        (
            "  variant 'same' of component model 'model' is in both packages, and its constraints"
            f" differ {versions}"
        ),
        "  variant 'more' of component model 'model' cannot stand for the others: "
        + "; ".join(f"{what} has the rank 3 instead of 2" for what in ("input 'x'", "output 'y'")),
        "  the sample set 's' differs",
        "  the samples' file 'samples/in.npz' differs",
    ]
    assert content_of(a) == before


@pytest.mark.requirement("K19", "K24")
@pytest.mark.parametrize("form", ["universal", "metadata", "component"])
def test_variants_of_two_versions_keep_each_its_own(
    tmp_path: Path, make_model: ModelMaker, form: str
) -> None:
    first = create(
        tmp_path / "1.0",
        [NewVariant.for_cpu(make_model("cpu"))],
        name="m",
        version="1.0",
        form=form,
    ).root
    second = create(
        tmp_path / "1.1",
        [NewVariant(model=make_model("npu"), ep="qnn")],
        name="m",
        version="1.1",
        form=form,
    ).root
    told: list[str] = []

    merge(first, second, notify=told.append)

    package = ModelPackage(first)
    assert package.version == "1.0"
    variants = {each.name: each for each in package.component().variants}
    assert {name: version_of(each, package.info) for name, each in variants.items()} == {
        "cpu": "1.0",
        "npu": "1.1",
    }
    assert package.best_variant(variant="cpu").version == "1.0"
    assert "the version stays '1.0'; variants of the other package keep '1.1' as theirs" in told
    assert errors_of(first) == []
    third = create(
        tmp_path / "1.2", [NewVariant(model=make_model("gpu"), ep="cuda")], name="m", version="1.2"
    ).root
    merge(third, first, notify=lambda _: None)
    variants = {each.name: each for each in ModelPackage(third).component().variants}
    found = {name: version_of(each, ModelPackage(third).info) for name, each in variants.items()}
    assert found == {"gpu": "1.2", "cpu": "1.0", "npu": "1.1"}
    assert (
        ModelPackage(third).select(profile="snapdragon-x-laptop", where={"version": "1.1"}).best
        is not None
    )


@pytest.mark.requirement("K19", "K24")
@pytest.mark.parametrize("form", FORMS)
def test_variants_of_a_package_without_a_version_get_none(
    tmp_path: Path, make_model: ModelMaker, form: str
) -> None:
    first = create(
        tmp_path / "a", [NewVariant.for_cpu(make_model("a"))], name="m", version="1.0", form=form
    ).root
    second = create(tmp_path / "b", [NewVariant.for_cpu(make_model("b"))], name="m", form=form).root
    third = create(
        tmp_path / "c", [NewVariant.for_cpu(make_model("c"))], name="m", version="2.0", form=form
    ).root
    told: list[str] = []

    merge(first, second, notify=told.append)
    merge(third, first, notify=lambda _: None)

    assert "the version stays '1.0'; variants of the other package have none" in told
    for root, versions in (
        (first, {"a": "1.0", "b": None}),
        (third, {"c": "2.0", "a": "1.0", "b": None}),
    ):
        package = ModelPackage(root)
        assert {
            each.name: version_of(each, package.info) for each in package.component().variants
        } == versions
        assert errors_of(root) == []
        selection = package.select(where={"version": "1.0"})
        assert {each.variant.name for each in selection.verdicts if each.is_eligible} == {"a"}


@pytest.mark.requirement("K19")
def test_a_variant_that_both_have_keeps_its_version_and_that_is_told(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    model = NewVariant.for_cpu(make_model("a"))
    first, second = (
        create(tmp_path / version, [model], name="m", version=version, form="universal").root
        for version in ("1.0", "1.1")
    )
    told: list[str] = []

    with pytest.raises(AuthoringError, match="already; nothing was changed"):
        merge(first, second, notify=told.append)

    assert told == [
        (
            "variant 'a' of component model 'model' is the same in both; its version stays '1.0', not"
            " '1.1'"
        )
    ]


@pytest.mark.requirement("K24")
@pytest.mark.parametrize(
    ("asked", "found"), [("1.0", "old"), ("2.1", "new"), ("2.1.0", "new"), ("1", "old"), ("2", "")]
)
def test_a_variant_without_a_version_of_its_own_is_found_by_the_packages(
    tmp_path: Path, make_model: ModelMaker, asked: str, found: str
) -> None:
    first = create(
        tmp_path / "new", [NewVariant.for_cpu(make_model("new"))], name="m", version="2.1"
    ).root
    second = create(
        tmp_path / "old", [NewVariant.for_cpu(make_model("old"))], name="m", version="1.0"
    ).root
    merge(first, second, notify=lambda _: None)

    selection = ModelPackage(first).select(where={"version": asked})

    assert ("" if selection.best is None else selection.best.variant.name) == found
    assert all(
        asked in each.reason
        for each in selection.verdicts
        if each.code is ReasonCode.METADATA_MISMATCH
    )


@pytest.mark.requirement("K24")
def test_the_version_can_be_asked_for_where_only_the_package_states_one(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    package = ModelPackage(
        create(tmp_path / "p", [NewVariant.for_cpu(make_model("cpu"))], version="1.0").root
    )
    assert package.select(where={"version": "1.0"}).best is not None
    reasons = {each.reason for each in package.select(where={"version": "1.1"}).verdicts}
    assert "version=1.1 was asked for; it records '1.0'" in reasons


@pytest.mark.requirement("K19")
def test_a_version_that_is_written_differently_is_no_other(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    first = create(
        tmp_path / "a", [NewVariant.for_cpu(make_model("cpu"))], name="m", version="1.0"
    ).root
    second = create(
        tmp_path / "b", [NewVariant(model=make_model("npu"), ep="qnn")], name="m", version="1.0.0"
    ).root
    merge(first, second, notify=lambda _: None)
    assert all("version" not in each.metadata for each in ModelPackage(first).component().variants)


def test_samples_keep_the_tolerances_of_both(tmp_path: Path, make_model: ModelMaker) -> None:
    roots = []
    for name, ep in (("one", "cpu"), ("two", "cuda")):
        root = create(tmp_path / name, [NewVariant(model=make_model(name), ep=ep)], name="m").root
        (root / "samples").mkdir()
        np.savez(root / "samples/in.npz", x=np.ones((1, 4), np.float32))
        np.savez(root / "samples/out.npz", y=np.ones((1, 4), np.float32))
        tolerance = {"tolerances": {"y": {"absolute": 1.0, "relative": 0.0}}}
        sample = {
            "name": "s",
            "inputs": "in.npz",
            "expected_outputs": "out.npz",
            "variants": {name: tolerance},
        }
        write(root / "samples/samples.json", {"schema_version": "1.0", "samples": [sample]})
        record(root)
        roots.append(root)

    merge(*roots)

    (sample,) = json.loads((roots[0] / "samples/samples.json").read_bytes())["samples"]
    assert list(sample["variants"]) == ["one", "two"]
    assert errors_of(roots[0]) == []
    assert check_digests(roots[0]) == ()


@pytest.mark.parametrize("samples", ["1", '{"samples": {}}', '{"samples": [[], {"name": 1}]}'])
def test_refuses_samples_that_are_none(
    tmp_path: Path, make_model: ModelMaker, samples: str
) -> None:
    roots = [
        create(tmp_path / name, [NewVariant(model=make_model(name), ep=ep)], name="m").root
        for name, ep in (("one", "cpu"), ("two", "cuda"))
    ]
    for root in roots:
        (root / "samples").mkdir()
        (root / "samples/samples.json").write_text(samples)
        record(root)
    with pytest.raises(PackageFormatError, match=r"samples\.json"):
        merge(*roots)


def test_a_pipeline_comes_along_with_its_components(tmp_path: Path, make_model: ModelMaker) -> None:
    a = create(
        tmp_path / "a", [NewVariant.for_cpu(make_model("e"))], component="encoder", name="m"
    ).root
    b = create(
        tmp_path / "b", [NewVariant.for_cpu(make_model("e"))], component="encoder", name="m"
    ).root
    add_variant(b, make_model("d"), component="decoder", ep="cpu", notify=lambda _: None)
    pipeline = {
        "schema_version": "1.0",
        "inputs": [{"name": "x", "type": "tensor(float)", "shape": ["batch", 4]}],
        "outputs": [{"name": "y", "type": "tensor(float)", "shape": ["batch", 4]}],
        "steps": [
            {"component": "encoder", "inputs": {"x": "x"}, "outputs": {"y": "h"}},
            {"component": "decoder", "inputs": {"x": "h"}, "outputs": {"y": "y"}},
        ],
    }
    write(b / "pipeline.json", pipeline)
    record(b)

    merged = merge(a, b, notify=lambda _: None)

    assert merged.has_pipeline
    assert names_of(merged) == {"encoder": ["e"], "decoder": ["d"]}


def test_a_folder_that_is_taken_gets_another_name(tmp_path: Path, make_model: ModelMaker) -> None:
    a = create(tmp_path / "a", [NewVariant.for_cpu(make_model("x"))], name="m").root
    (a / "models/model/y").mkdir()
    (a / "models/model/y/mine.txt").write_text("mine")
    record(a)
    b = create(tmp_path / "b", [NewVariant(model=make_model("y"), ep="cuda")], name="m").root

    merged = merge(a, b)

    assert merged.components[0].variants[1].directory.name == "y-2"
    assert (a / "models/model/y/mine.txt").read_text() == "mine"
    assert errors_of(a) == []


def test_no_two_joining_variants_get_one_folder(tmp_path: Path, make_model: ModelMaker) -> None:
    create(tmp_path / "a", [NewVariant(model=make_model("first"), name="x", ep="qnn")])
    (tmp_path / "a/models/model/y").mkdir()  # what a merged variant calls its folder, too
    names = {"y": make_model("second", who="y"), "y-2": make_model("third", who="y-2")}
    wanted = [NewVariant(model=model, name=name, ep="cpu") for name, model in names.items()]
    create(tmp_path / "b", wanted)

    merged = merge(tmp_path / "a", tmp_path / "b", output=tmp_path / "c", notify=lambda _: None)

    _, *joined = merged.components[0].variants
    folders = [variant.directory for variant in joined]
    assert [folder.name for folder in folders] == ["y-2", "y-2-2"]
    for model, folder in zip(names.values(), folders, strict=True):
        assert [path.read_bytes() for path in folder.iterdir()] == [model.read_bytes()]


def test_damage_is_named_and_nothing_is_copied(tmp_path: Path, make_model: ModelMaker) -> None:
    a = create(tmp_path / "a", [NewVariant.for_cpu(make_model("x"))], name="m").root
    b = create(tmp_path / "b", [NewVariant(model=make_model("y"), ep="cuda")], name="m").root
    (b / "models/model/y/y.onnx").write_bytes(b"x")

    with pytest.raises(DigestMismatchError, match=r"'models/model/y/y.onnx'"):
        merge(a, b)


def test_a_damaged_record_is_believed_by_nobody(tmp_path: Path, make_model: ModelMaker) -> None:
    a = create(tmp_path / "a", [NewVariant.for_cpu(make_model("x"))], name="m").root
    b = create(tmp_path / "b", [NewVariant(model=make_model("y"), ep="cuda")], name="m").root
    whole = (b / DIGESTS_FILE).read_text()
    stated = json.loads(whole)["package"]
    for changed in (
        whole.replace(stated, "0" * 64),
        whole.replace('"nbytes": 90', '"nbytes": 91'),
        whole + " ",
    ):
        assert changed != whole
        (b / DIGESTS_FILE).write_text(changed)
        for first, second in ((a, b), (b, a)):
            for output in (None, tmp_path / "new"):
                with pytest.raises(DigestMismatchError, match=r"digests\.json"):
                    merge(first, second, output=output)


@pytest.mark.parametrize(
    "samples", ["[]", "7", '{"samples": [1]}', '{"schema_version": "1.0", "samples": [{}]}']
)
@pytest.mark.parametrize("side", ["a", "b"])
def test_samples_that_are_none_are_refused(
    tmp_path: Path, make_model: ModelMaker, samples: str, side: str
) -> None:
    roots = {
        name: (
            create(tmp_path / name, [NewVariant(model=make_model(name), ep="cuda")], name="m").root
        )
        for name in "ab"
    }
    (roots[side] / "samples").mkdir()
    (roots[side] / SAMPLES).write_text(samples)

    with pytest.raises(PackageFormatError, match=r"samples/samples\.json"):
        merge(roots["a"], roots["b"], output=tmp_path / "new")


def test_what_is_written_is_done_though_it_cannot_be_read_back(
    tmp_path: Path, make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = create(tmp_path / "a", [NewVariant.for_cpu(make_model("x"))], name="m").root
    b = create(tmp_path / "b", [NewVariant(model=make_model("y"), ep="cuda")], name="m").root

    def fail(root: Path) -> PackageInfo:
        raise OSError(errno.EMFILE, "Too many open files", str(root))

    monkeypatch.setattr(written_package, "open_package", fail)
    with pytest.raises(
        ResultUnreadableError, match="was written and is complete, but cannot be read now"
    ) as raised:
        merge(a, b, output=tmp_path / "new")

    assert raised.value.exit_code == 0
    monkeypatch.undo()
    assert validate(tmp_path / "new", ignore=["ORT2", "ORT5", "ORT6"]) == ()


def test_warns_of_a_joining_variant_that_fixes_a_dimension_at_another_size(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    first = create(tmp_path / "a", [NewVariant.for_cpu(make_model("cpu"))], name="m").root
    wider = make_model("wider", signature="(float[batch, 8] x) => (float[batch, 8] y)")
    free = make_model("free", signature="(float[1, width] x) => (float[1, width] y)")
    models = [NewVariant(model=free, ep="qnn"), NewVariant(model=wider, ep="cuda")]
    second = create(tmp_path / "b", models, name="m").root
    warnings: list[str] = []

    merged = merge(first, second, output=tmp_path / "both", notify=warnings.append)

    assert len(merged.components[0].variants) == 3
    assert warnings == [
        "variant 'wider' of component model 'model' differs from 'cpu': "
        f"{end} has the fixed dimension 8 at axis 1, not 4; no feed suits both"
        for end in ("input 'x'", "output 'y'")
    ]
