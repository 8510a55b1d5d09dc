"""Opening a package: its generation, all findings at once, and what is no package."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortpkg.foundations.errors import (
    ExitCode,
    PackageFormatError,
    PackageNotFoundError,
    Severity,
    UnsupportedSchemaVersionError,
)
from ortpkg.package import reader
from ortpkg.package.package_info import PackageFormat, ValueInfo
from ortpkg.package.reader import check_package, open_package
from tests.cli.conftest import DIGITS as DIGITS_PACKAGE
from tests.package.conftest import WritePackage

DIGITS: dict[str, Any] = {
    "manifest.json": {
        "model_name": "digits",
        "component_models": ["classifier"],
        "inputs": [{"name": "image", "type": "tensor(float)", "shape": ["batch", 1, 8, 8]}],
        "outputs": [{"name": "logits", "type": "tensor(float)"}],
    },
    "models/classifier/metadata.json": {"model_variants": {"cpu": {}}},
    "models/classifier/cpu/model.onnx": b"",
}


@pytest.mark.requirement("K20")
def test_opens_a_package_with_its_overall_inputs_and_outputs(write_package: WritePackage) -> None:
    root = write_package(DIGITS)
    info = open_package(str(root))
    assert (info.root, info.format, info.has_pipeline, info.has_samples) == (
        root.resolve(),
        PackageFormat.METADATA,
        False,
        False,
    )
    assert info.inputs == (ValueInfo(name="image", type="tensor(float)", shape=("batch", 1, 8, 8)),)
    assert info.outputs == (ValueInfo(name="logits", type="tensor(float)"),)
    assert check_package(root) == (info, ())


def test_what_is_opened_is_read_only_and_picklable(write_package: WritePackage) -> None:
    info = open_package(write_package(DIGITS))
    assert pickle.loads(pickle.dumps(info)) == info
    with pytest.raises(AttributeError):
        info.name = "other"  # type: ignore[misc]


@pytest.mark.requirement("K17")
def test_reading_a_package_loads_neither_onnx_nor_numpy_nor_an_engine() -> None:
    code = (
        "import sys, ortpkg.package.reader; print([name for name in sys.modules if"
        " name.split('.')[0] in ('numpy', 'onnx', 'onnxruntime', 'jsonschema') or"
        " name.startswith(('ortpkg.runtime.engine', 'ortpkg.runtime.providers', 'ortpkg.runtime.session'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_reports_everything_that_is_wrong_in_all_documents_at_once(
    write_package: WritePackage,
) -> None:
    root = write_package(
        {
            "manifest.json": {"model_name": 1, "component_models": ["a", "b", "gone", "c"]},
            "pipeline.json": {},
            "models/a/metadata.json": '{"model_variants": {"v": {"file": 1}}}',
            "models/b/metadata.json": "{",
            "models/c/metadata.json": {
                "model_variants": {"v": {"file": "none.onnx", "constraints": {"ep": "Odd"}}}
            },
            "models/c/v/m.onnx": b"",
        }
    )
    with pytest.raises(PackageFormatError) as caught:
        open_package(root)
    places = [
        (finding.rule, finding.document, finding.pointer) for finding in caught.value.findings
    ]
    assert places == [
        ("ORT005", "manifest.json", "/model_name"),
        ("ORT005", "models/a/metadata.json", "/model_variants/v/file"),
        ("ORT003", "models/b/metadata.json", ""),
        ("ORT021", "manifest.json", "/component_models/gone"),
        ("ORT010", "models/c/metadata.json", "/model_variants/v/file"),
        ("ORT032", "models/c/metadata.json", "/model_variants/v/constraints/ep"),
        ("ORT005", "pipeline.json", ""),
    ]
    assert "is not a valid model package: 6 problems" in str(caught.value)
    assert caught.value.document == "manifest.json"
    assert caught.value.exit_code is ExitCode.PACKAGE


def test_a_package_that_is_wrong_has_no_info(write_package: WritePackage) -> None:
    info, findings = check_package(write_package({"manifest.json": {}}))
    assert info is None
    assert [str(finding) for finding in findings] == [
        "manifest.json: lacks 'model_name' (must be an object with at least model_name) [ORT005]"
    ]


def test_says_what_a_package_looks_like_where_there_is_no_manifest(tmp_path: Path) -> None:
    for read in (open_package, check_package):
        with pytest.raises(
            PackageNotFoundError,
            match=r"there is no manifest\.json\. A package is a directory with",
        ):
            read(tmp_path)


def test_opens_the_folder_of_a_component_alone(write_package: WritePackage) -> None:
    package = open_package(write_package(DIGITS) / "models" / "classifier")
    assert (package.name, package.format) == ("classifier", PackageFormat.METADATA)
    (component,) = package.components
    assert [variant.directory for variant in component.variants] == [package.root / "cpu"]


def test_says_when_there_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PackageNotFoundError, match=r"'.*none' does not exist"):
        open_package(tmp_path / "none")
    with pytest.raises(PackageNotFoundError, match=r"'.*file' is not a directory"):
        open_package(tmp_path / "file")


def test_refuses_a_manifest_that_is_a_link_out_of_the_package(
    write_package: WritePackage, tmp_path: Path
) -> None:
    root = write_package(DIGITS)
    (root / "manifest.json").rename(tmp_path / "manifest.json")
    try:
        (root / "manifest.json").symlink_to(tmp_path / "manifest.json")
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")
    with pytest.raises(
        PackageFormatError,
        match=(
            r"manifest\.json: path 'manifest\.json' leads out of the package through a symbolic"
            r" link"
        ),
    ):
        open_package(root)


def test_a_package_without_components_opens_with_a_warning(write_package: WritePackage) -> None:
    root = write_package({"manifest.json": {"model_name": "m"}})
    info, (finding,) = check_package(root)
    assert info is not None
    assert (finding.rule, finding.severity) == ("ORT023", Severity.WARNING)


def test_refuses_a_newer_major_version(write_package: WritePackage) -> None:
    root = write_package({**DIGITS, "manifest.json": {"model_name": "m", "schema_version": "2.0"}})
    with pytest.raises(
        UnsupportedSchemaVersionError, match=r"has schema_version 2\.0, this ortpkg knows 1\.x"
    ):
        open_package(root)


@pytest.mark.parametrize(
    ("declared", "version"),
    [
        ("1.0", (1, 0)),
        ("1.1000", (1, 1000)),
        ("1", (1, 0)),
        (1, (1, 0)),
        ("one", None),
        (True, None),
        (None, None),
    ],
)
def test_reads_the_schema_version_where_there_is_one(
    write_package: WritePackage, declared: Any, version: Any
) -> None:
    manifest = {**DIGITS["manifest.json"], "schema_version": declared}
    assert (
        open_package(write_package({**DIGITS, "manifest.json": manifest})).schema_version == version
    )


def test_the_pipeline_gives_the_order_of_components(write_package: WritePackage) -> None:
    step = {"inputs": {}, "outputs": {"y": "y"}}
    steps = [
        {"component": "z", **step},
        {"component": "a", "inputs": {"y": "y"}, "outputs": {"y": "w"}},
    ]
    models = {f"models/{name}/v/m.onnx": b"" for name in "azu"}
    documents: dict[str, Any] = {
        f"models/{name}/metadata.json": {"model_variants": {"v": {}}} for name in "azu"
    }
    outputs = [{"name": "w", "type": "tensor(float)"}]
    pipeline = {"schema_version": "1.0", "inputs": [], "outputs": outputs, "steps": steps}
    manifest = {"model_name": "m", "outputs": [{"name": "q", "type": "tensor(float)"}]}
    root = write_package(
        {"manifest.json": manifest, "pipeline.json": pipeline, **models, **documents}
    )
    info, findings = check_package(root)
    assert info is not None
    assert [component.name for component in info.components] == ["z", "a", "u"]
    assert info.has_pipeline
    assert [value.name for value in info.outputs] == ["w"]
    assert [str(finding).partition(" (")[0] for finding in findings] == [
        "pipeline.json#/steps: no step runs component model 'u'",
        "manifest.json#/outputs: outputs differ from those of pipeline.json",
    ]


def test_a_wrong_pipeline_does_not_open(write_package: WritePackage) -> None:
    with pytest.raises(PackageFormatError, match=r"pipeline\.json: lacks 'schema_version'"):
        open_package(write_package({**DIGITS, "pipeline.json": {}}))


def test_wrong_samples_and_digests_open_but_are_found(write_package: WritePackage) -> None:
    root = write_package({**DIGITS, "samples/samples.json": {}, "digests.json": "[]"})
    assert open_package(root).has_samples
    info, findings = check_package(root)
    assert info is not None
    assert [finding.document for finding in findings] == ["samples/samples.json", "digests.json"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"model_name": NaN}', '{"model_name": "a", "model_name": "b"}'],
)
def test_a_bad_manifest_is_one_typed_error(write_package: WritePackage, text: str) -> None:
    with pytest.raises(PackageFormatError, match=r"manifest\.json"):
        open_package(write_package({"manifest.json": text}))


WHOLE: dict[str, Any] = {
    "manifest.json": {
        "model_name": "m",
        "component_models": {"c": {"model_variants": {"v": {"file": "m.onnx", "constraints": {"ep": "X"}}}}},
        "inputs": [{"name": "x", "type": "tensor(float)", "shape": [1]}],
    },
    "models/c/metadata.json": {"model_variants": {"v": {"model_id": "v", "session_options": {"a": "b"}}, "w": {}}},
    "pipeline.json": {
        "schema_version": "1.0",
        "inputs": [{"name": "x", "type": "tensor(float)"}],
        "outputs": [{"name": "y", "type": "tensor(float)"}],
        "steps": [
            {"repeat": {"times": 2, "steps": [{"component": "c", "inputs": {"a": "x"}, "outputs": {"b": "y"}}],
                        "carry": {"x": "y"}, "collect": ["y"], "stop": {"value": "y", "equals": 1}}}
        ],
    },
    "samples/samples.json": {
        "schema_version": "1.0",
        "samples": [
            {"name": "s", "inputs": "x.npz", "variants": {"v": {"tolerances": {"y": {"absolute": 1}}}},
             "labels": {"file": "x.npz", "name": "l"}, "display": {"output": "y", "as": "class"}}
        ],
    },
    "digests.json": {
        "schema_version": "1.0", "algorithm": "sha256", "package": 64 * "0",
        "files": {"a": {"digests": [64 * "0"], "nbytes": 1}},
    },
}  # fmt: skip
ODD_TEXTS = [
    "",
    "..",
    "/",
    "C:",
    "\x00",
    "c",
    "v",
    "x.npz",
    "1",
    "1.0",
    "9.9",
    "\u202e",
    "a" * 300,
    "~/x",
]
ODD_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, 10**40, [], [[]], {}, {"": {}}, *ODD_TEXTS]
)


@given(data=st.data())
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_damage_to_the_documents_is_more_than_findings(
    write_package: WritePackage, data: st.DataObject
) -> None:
    files = json.loads(json.dumps(WHOLE))
    for _ in range(data.draw(st.integers(1, 3))):
        damage(data, files[data.draw(st.sampled_from(sorted(files)))])
    root = write_package(
        {**files, "models/c/v/m.onnx": b"", "models/c/w/m.onnx": b"", "samples/x.npz": b""}
    )
    info, findings = check_package(root)
    assert info is not None or any(finding.severity is Severity.ERROR for finding in findings)
    assert all(str(finding).isprintable() for finding in findings)


def damage(data: st.DataObject, value: Any) -> None:
    """Replaces, removes or adds one thing somewhere below ``value``."""
    while isinstance(value, dict | list) and value:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(value[key], dict | list) and value[key] and data.draw(st.integers(0, 3)):
            value = value[key]
            continue
        what = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if what == "remove":
            del value[key]
        elif what == "add" and isinstance(value, dict):
            value[data.draw(st.sampled_from(ODD_TEXTS))] = copy.deepcopy(value[key])
        else:
            value[key] = copy.deepcopy(data.draw(ODD_VALUES))
        return


def test_a_package_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document names a file that a command removes a moment later, with the name."""
    root = Path(shutil.copytree(DIGITS_PACKAGE, tmp_path / "digits.ortpackage"))
    model = next(root.glob("models/*/*/model.onnx"))
    content = model.read_bytes()
    model.unlink()
    read = reader._read_once

    def read_and_changed(*arguments: Any, **named: Any) -> Any:
        found = read(*arguments, **named)
        model.write_bytes(content)
        return found

    monkeypatch.setattr(reader, "_read_once", read_and_changed)

    assert reader.open_package(root).components
