"""add_variant with shared weights: copies only what the new model alone has, changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortpkg.authoring.create import add_variant, create, remove_variant
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import AuthoringError, ModelFileError, Severity
from ortpkg.package.package_info import PackageFormat
from ortpkg.package.reader import open_package
from tests.authoring.weight_models import (
    assert_same_results,
    edit_metadata,
    make_model,
    make_package,
    outputs_of,
    results_of,
    weight,
)
from tests.package.failing_operations import content_of

WEIGHTS = {"w0": weight(0), "w1": weight(1), "w2": weight(2)}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return make_package(tmp_path / "p", {"a": make_model(tmp_path / "a", WEIGHTS)})


def add(package: Path, model: Path) -> list[str]:
    """Adds ``model`` as variant ``new``; returns what was said. It computes what it did before."""
    told: list[str] = []
    add_variant(package, model, variant="new", ep="qnn", share_weights=True, notify=told.append)
    if model.is_file():
        assert_same_results(
            {"model/new": outputs_of(model)}, {"model/new": results_of(package)["model/new"]}
        )
    assert [
        str(finding) for finding in validate(package) if finding.severity is Severity.ERROR
    ] == []
    return told


@pytest.mark.requirement("K23")
@pytest.mark.requirement("K18")
def test_equal_data_is_not_copied_and_nothing_that_is_there_changes(
    package: Path, tmp_path: Path
) -> None:
    before = content_of(package)

    told = add(
        package, make_model(tmp_path / "b", WEIGHTS, location="b.bin", packing=["w2", "w1", "w0"])
    )

    after = content_of(package)
    assert {name for name in after if after[name] != before.get(name)} == {
        "models/model/a/new.onnx",
        "models/model/metadata.json",
        "digests.json",
    }
    assert before.keys() <= after.keys()
    assert len(told) == 1
    assert "variant 'new' shares weights with 'a': " in told[0]


@pytest.mark.requirement("K23")
def test_what_the_new_model_has_alone_comes_along(package: Path, tmp_path: Path) -> None:
    model = make_model(tmp_path / "b", {"w1": weight(1), "own": weight(9)})

    add(package, model)

    added = package / "models/model/a/new.data"
    assert added.read_bytes() == weight(9).tobytes()
    remove_variant(package, "new")
    assert not added.exists()
    assert sorted(results_of(package)) == ["model/a"]


@pytest.mark.parametrize("form", list(PackageFormat))
def test_works_in_every_generation_of_the_format(tmp_path: Path, form: PackageFormat) -> None:
    package = create(
        tmp_path / "p", [NewVariant.for_cpu(make_model(tmp_path / "a", WEIGHTS))], form=form
    ).root

    add(package, make_model(tmp_path / "b", WEIGHTS, location="b.bin"))

    info = open_package(package)
    assert info.format is form
    first, second = info.components[0].variants
    assert first.directory == second.directory


def test_the_host_is_named_first_where_it_was_not(package: Path, tmp_path: Path) -> None:
    path = edit_metadata(package, lambda variants: variants["a"].pop("model_file"))

    add(package, make_model(tmp_path / "b", WEIGHTS))

    variants = json.loads(path.read_bytes())["model_variants"]
    assert variants["a"]["model_file"] == "model.onnx"
    assert (variants["new"]["model_id"], variants["new"]["model_file"]) == ("a", "new.onnx")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("nothing in common", "no variant that it could join has weights in common with it"),
        ("other files", "its folder holds other files than the model and its data"),
        (
            "embedded",
            "its weights lie in the ONNX file itself; ortpkg dedup --externalize SIZE shares such",
        ),
    ],
)
def test_a_model_that_cannot_share_is_added_on_its_own_and_that_is_said(
    package: Path, tmp_path: Path, kind: str, reason: str
) -> None:
    weights = {"other": weight(7)} if kind == "nothing in common" else WEIGHTS
    model = make_model(
        tmp_path / "b", weights, embedded=list(weights) if kind == "embedded" else ()
    )
    if kind == "other files":
        (model.parent / "labels.txt").write_text("cat", encoding="utf-8")
        model = model.parent

    told = add(package, model)

    assert told == [f"variant 'new' shares no weights: {reason}"]
    assert (package / "models/model/new/model.onnx").is_file()


def test_a_new_component_has_nothing_to_share_with(package: Path, tmp_path: Path) -> None:
    told: list[str] = []

    add_variant(
        package,
        make_model(tmp_path / "b", WEIGHTS),
        component="second",
        ep="cpu",
        share_weights=True,
        notify=told.append,
    )

    assert not [each for each in told if "shares" in each]
    assert (package / "models/second/model/weights.bin").is_file()


def test_joins_the_variant_that_it_has_most_in_common_with(package: Path, tmp_path: Path) -> None:
    add_variant(
        package,
        make_model(tmp_path / "b", {"w0": weight(0), "x0": weight(50)}),
        variant="b",
        ep="cuda",
    )

    add(package, make_model(tmp_path / "c", {"w0": weight(0), "w1": weight(1), "n": weight(60)}))

    assert (package / "models/model/a/new.onnx").is_file()


def test_a_damaged_variant_in_the_package_is_named_and_nothing_is_changed(
    package: Path, tmp_path: Path
) -> None:
    (package / "models/model/a/weights.bin").write_bytes(b"short")
    before = content_of(package)

    with pytest.raises(
        ModelFileError,
        match=r"data file 'weights.bin' in '.*' is too short: 5 bytes of 1024 needed",
    ):
        add_variant(package, make_model(tmp_path / "b", WEIGHTS), variant="new", share_weights=True)

    assert content_of(package) == before


def test_refuses_a_package_with_links(package: Path, tmp_path: Path) -> None:
    (package / "models/model/link").symlink_to("a")

    with pytest.raises(AuthoringError, match=r"'models/model/link' is a symbolic link"):
        add_variant(package, make_model(tmp_path / "b", WEIGHTS), variant="new", share_weights=True)
