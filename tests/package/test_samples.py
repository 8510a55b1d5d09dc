"""samples/samples.json: what is read, and files that are not where the document says."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import PackageFormatError, Severity
from ortpkg.package.formats.samples import (
    Display,
    DisplayKind,
    Labels,
    Tolerance,
    check_samples,
    read_samples,
)
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo
from tests.package.conftest import WritePackage


def package_of(root: Path, *components: str, has_pipeline: bool = False) -> PackageInfo:
    """A package whose components each have one variant ``v``."""
    infos = tuple(
        ComponentInfo(
            name=name,
            directory=root,
            variants=(VariantInfo(name="v", component_name=name, directory=root, model_path=None),),
        )
        for name in components
    )
    return PackageInfo(
        root=root.resolve(),
        name="m",
        version=None,
        format=PackageFormat.METADATA,
        components=infos,
        has_pipeline=has_pipeline,
    )


def files(*samples: dict[str, Any]) -> dict[str, Any]:
    """samples.json with sets that by default have a name and inputs, beside x.npz."""
    bodies = [{"name": f"s{index}", "inputs": "x.npz"} | body for index, body in enumerate(samples)]
    return {
        "samples/samples.json": {"schema_version": "1.0", "samples": bodies},
        "samples/x.npz": b"",
    }


def problems(package: PackageInfo) -> list[str]:
    return [f"{finding.pointer}: {finding.message}" for finding in check_samples(package)]


def test_a_package_without_samples_has_none(tmp_path: Path) -> None:
    package = package_of(tmp_path, "c")
    assert read_samples(package) == ()
    assert check_samples(package) == ()


def test_reads_a_whole_sample_set(write_package: WritePackage) -> None:
    body = {
        "name": "held-out",
        "description": "digits",
        "component": "c",
        "expected_outputs": "sub/y.npz",
        "batch_axis": 0,
        "tolerances": {"logits": {"absolute": 1e-3}},
        "variants": {"v": {"tolerances": {"logits": {"absolute": 1, "relative": 0.5}}}},
        "labels": {"file": "z.npz", "name": "labels"},
        "display": {
            "output": "logits",
            "as": "text",
            "vocabulary": "words.json",
            "classes": ["a", "b"],
        },
    }
    others: dict[str, Any] = {
        "samples/sub/y.npz": b"",
        "samples/z.npz": b"",
        "samples/words.json": "[]",
    }
    package = package_of(write_package({**files(body), **others}), "c")
    (sample,) = read_samples(package)
    directory = package.root / "samples"
    assert (sample.name, sample.description, sample.component, sample.batch_axis) == (
        "held-out",
        "digits",
        "c",
        0,
    )
    assert (sample.inputs, sample.expected_outputs) == (
        directory / "x.npz",
        directory / "sub" / "y.npz",
    )
    assert sample.labels == Labels(file=directory / "z.npz", name="labels")
    assert sample.display == Display(
        output="logits",
        kind=DisplayKind.TEXT,
        classes=("a", "b"),
        vocabulary=directory / "words.json",
    )
    assert pickle.loads(pickle.dumps(sample)) == sample


def test_a_variants_own_tolerance_comes_first(write_package: WritePackage) -> None:
    body = {
        "tolerances": {"a": {"absolute": 1e-3}, "b": {"relative": 0.1}},
        "variants": {"v": {"tolerances": {"a": {"absolute": 1}}}},
    }
    (sample,) = read_samples(package_of(write_package(files(body)), "c"))
    assert sample.tolerance("a") == Tolerance(absolute=1e-3)
    assert sample.tolerance("a", variant="v") == Tolerance(absolute=1.0)
    assert sample.tolerance("b", variant="v") == Tolerance(relative=0.1)
    assert sample.tolerance("a", variant="other") == Tolerance(absolute=1e-3)
    assert sample.tolerance("none", variant="v") is None


def test_samples_without_component_belong_to_the_only_one_or_to_the_pipeline(
    write_package: WritePackage,
) -> None:
    root = write_package(files({}))
    assert read_samples(package_of(root, "c"))[0].component == "c"
    assert read_samples(package_of(root, "c", "d", has_pipeline=True))[0].component is None


@pytest.mark.parametrize(
    ("body", "components", "message"),
    [
        ({}, ("c", "d"), "/samples/0: names no component model, though the package has several and no pipeline"),
        ({}, (), "/samples/0: has no component model to run on"),
        ({"component": "x"}, ("c",), "/samples/0/component: component model 'x' does not exist"),
        ({"inputs": "none.npz"}, ("c",), "/samples/0/inputs: file 'none.npz' does not exist in samples/"),
        ({"inputs": "."}, ("c",), "/samples/0/inputs: file '.' is not a file in samples/"),
        ({"expected_outputs": "../y.npz"}, ("c",), "/samples/0/expected_outputs: path '../y.npz' leads out"),
        ({"labels": {"file": "/l", "name": "l"}}, ("c",), "/samples/0/labels/file: path '/l' is absolute"),
        ({"display": {"output": "y", "as": "text"}}, ("c",), "/samples/0/display: shows text without a vocabulary"),
        ({"display": {"output": "y", "as": "image"}}, ("c",), "/samples/0/display/as: is the text 'image'"),
        ({"batch_axis": 1}, ("c",), "/samples/0/batch_axis: is the number 1"),
        ({"tolerances": {"y": {"absolute": -1}}}, ("c",), "/samples/0/tolerances/y/absolute: is the number -1"),
    ],
)  # fmt: skip
def test_says_what_is_wrong(
    write_package: WritePackage, body: Any, components: Any, message: str
) -> None:
    package = package_of(write_package(files(body)), *components)
    (problem,) = problems(package)
    assert problem.startswith(message)
    with pytest.raises(PackageFormatError, match=r"samples/samples\.json"):
        read_samples(package)


def test_sample_names_are_unique(write_package: WritePackage) -> None:
    root = write_package(files({"name": "a"}, {"name": "b"}, {"name": "a"}))
    assert problems(package_of(root, "c")) == ["/samples/2/name: sample set 'a' is there twice"]


def test_a_variant_that_is_gone_is_a_warning(write_package: WritePackage) -> None:
    package = package_of(write_package(files({"variants": {"gone": {}}})), "c")
    (finding,) = check_samples(package)
    assert (finding.severity, finding.pointer) == (Severity.WARNING, "/samples/0/variants/gone")
    assert len(read_samples(package)) == 1


def test_a_link_out_of_the_package_is_refused(write_package: WritePackage, tmp_path: Path) -> None:
    (tmp_path / "secret.npz").write_bytes(b"")
    root = write_package(files({"inputs": "out.npz"}))
    try:
        (root / "samples" / "out.npz").symlink_to(tmp_path / "secret.npz")
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")
    (problem,) = problems(package_of(root, "c"))
    assert "leads out of the package through a symbolic link" in problem
