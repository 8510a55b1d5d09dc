"""Universal packages: both generations' keys in one directory, which must say the same."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortpkg.foundations.errors import PackageFormatError, Severity
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_31
from ortpkg.package.package_info import Constraints, PackageFormat
from ortpkg.package.reader import check_package, open_package
from tests.package.conftest import WritePackage

CPU, GPU = "CPUExecutionProvider", "CUDAExecutionProvider"


def universal() -> dict[str, Any]:
    """One component with a CPU and a GPU variant, as onnxruntime 1.26 to 1.31 open it."""
    return {
        "manifest.json": {
            "schema_version": "1.1000",
            "model_name": "digits",
            "component_models": ["c"],
            "components": {"c": "models/c/metadata.json"},
        },
        "models/c/metadata.json": {
            "component_model_name": "c",
            "model_variants": {
                "cpu": {"model_file": "m.onnx", "constraints": {"ep": CPU, "device": "cpu"}},
                "gpu": {
                    "model_file": "m.onnx",
                    "constraints": {"ep": GPU, "device": "gpu", "ep_compatibility_info": "sm"},
                    "metadata": {"quantization": "fp16"},
                },
            },
            "variants": {
                "cpu": {"ep": CPU, "executor_info": {"ort": {"model_file": "m.onnx"}}},
                "gpu": {
                    "ep": GPU,
                    "device": "GPU",
                    "compatibility_string": "sm",
                    "executor_info": {
                        "ort": {"model_file": "m.onnx", "provider_options": {"device_id": "0"}}
                    },
                },
            },
        },
        "models/c/cpu/m.onnx": "",
        "models/c/gpu/m.onnx": "",
    }


def findings(root: Path) -> list[str]:
    return [str(each).partition(" (")[0] for each in check_package(root)[1]]


def test_is_one_package_with_what_both_generations_say(write_package: WritePackage) -> None:
    info = open_package(write_package(universal()))
    assert (info.format, info.name, info.schema_version) == (
        PackageFormat.UNIVERSAL,
        "digits",
        (1, 1000),
    )
    cpu, gpu = info.components[0].variants
    assert (cpu.constraints, cpu.component_constraints) == (
        Constraints(ep=CPU, device="cpu"),
        Constraints(ep=CPU),
    )
    assert gpu.metadata == {"quantization": "fp16"}
    assert dict(gpu.provider_options) == {"device_id": "0"}
    assert gpu.model_path == info.root / "models/c/gpu/m.onnx"


def test_onnxruntime_1_31_reads_the_component_keys_alone(write_package: WritePackage) -> None:
    files = universal()
    files["models/c/metadata.json"]["model_variants"] = "not looked at"
    info = open_package(write_package(files), compat=ONNXRUNTIME_1_31)
    assert (info.format, info.name) == (PackageFormat.COMPONENT, "p")
    assert [(each.name, each.constraints.device) for each in info.components[0].variants] == [
        ("cpu", None),
        ("gpu", "gpu"),
    ]


def _set(value: Any, *path: str) -> Any:
    """A change of the component keys of the package's metadata.json."""

    def change(files: dict[str, Any]) -> None:
        body = files["models/c/metadata.json"]["variants"]
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _set("other.onnx", "gpu", "executor_info", "ort", "model_file"),
            "the model file of variant 'gpu' is",
        ),
        (
            _set(CPU, "gpu", "ep"),
            f"ep of variant 'gpu' is '{CPU}', in model_variants it is '{GPU}'",
        ),
        (
            _set("npu", "gpu", "device"),
            "device of variant 'gpu' is 'npu', in model_variants it is 'gpu'",
        ),
        (
            _set("", "gpu", "device"),
            "device of variant 'gpu' is not stated, in model_variants it is 'gpu'",
        ),
        (
            _set("gpu", "cpu", "device"),
            "device of variant 'cpu' is 'gpu', in model_variants it is 'cpu'",
        ),
        (
            _set("sm_90", "gpu", "compatibility_string"),
            "the compatibility string of variant 'gpu' is 'sm_90'",
        ),
    ],
)
def test_refuses_lists_that_differ(write_package: WritePackage, change: Any, message: str) -> None:
    files = universal() | {"models/c/gpu/other.onnx": ""}
    change(files)
    (found,) = findings(write_package(files))
    place, _, said = found.partition(": ")
    assert place in ("models/c/metadata.json#/variants/cpu", "models/c/metadata.json#/variants/gpu")
    assert said.startswith(message)


def test_a_cpu_variant_may_state_its_device_in_both(write_package: WritePackage) -> None:
    files = universal()
    _set("cpu", "cpu", "device")(files)
    assert findings(write_package(files)) == []


def test_refuses_lists_with_other_variants_or_another_order(write_package: WritePackage) -> None:
    files = universal()
    variants = files["models/c/metadata.json"]["variants"]
    files["models/c/metadata.json"]["variants"] = dict(reversed(variants.items()))
    assert findings(write_package(files)) == [
        (
            "models/c/metadata.json: model_variants has 'cpu', 'gpu', variants has 'gpu', 'cpu', which"
            " differs"
        )
    ]
    del variants["gpu"]
    files["models/c/metadata.json"]["variants"] = variants
    with pytest.raises(
        PackageFormatError, match=r"model_variants has 'cpu', 'gpu', variants has 'cpu'.*\[ORT061\]"
    ):
        open_package(write_package(files))


def test_refuses_lists_with_other_components(write_package: WritePackage) -> None:
    files = universal()
    files["manifest.json"]["components"]["d"] = copy.deepcopy(files["models/c/metadata.json"])
    del (
        files["manifest.json"]["components"]["d"]["variants"]["cpu"],
        files["manifest.json"]["components"]["c"],
    )
    files |= {"gpu/m.onnx": ""}
    (found,) = findings(write_package(files))
    assert found.startswith(
        "manifest.json#/components: component_models has 'c', components has 'd'"
    )


def test_refuses_component_keys_that_onnxruntime_would_not_open(
    write_package: WritePackage,
) -> None:
    files = universal()
    files["manifest.json"]["schema_version"] = "1.0"
    assert "manifest.json#/model_name: key 'model_name' is not known" in findings(
        write_package(files)
    )
    files["manifest.json"]["schema_version"] = "one"
    assert findings(write_package(files)) == [
        'manifest.json#/schema_version: schema_version is not a text of the form "<major>.<minor>"'
    ]


def test_without_a_version_the_component_keys_mean_nothing(write_package: WritePackage) -> None:
    files = universal()
    del files["manifest.json"]["schema_version"]
    assert open_package(write_package(files)).format is PackageFormat.METADATA


TEXTS = st.sampled_from(
    [
        "m.onnx",
        "m",
        "gpu",
        "cpu",
        "",
        "sub/m.onnx",
        "../m.onnx",
        "link.onnx",
        "none.onnx",
        "NUL",
        "a:b",
    ]
)
EPS = st.sampled_from([CPU, GPU, "OddExecutionProvider", ""])
DEVICES = st.sampled_from(["cpu", "GPU", "tpu", ""])
OPTIONS = st.sampled_from(
    [{}, {"a": "1"}, {"a": "2"}, {"session.enable_profiling": "1"}, {"ep.context_file_path": "m"}]
)
OLDER: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "model_file": TEXTS,
        "file": TEXTS,
        "model_id": TEXTS,
        "constraints": (
            st.none()
            | st.fixed_dictionaries({}, optional={"ep": EPS | st.none(), "device": DEVICES})
        ),
        "session_options": OPTIONS,
        "provider_options": OPTIONS,
        "additional_metadata": st.sampled_from(["", None, 0, {"a": []}]),
        "metadata": st.sampled_from([{}, {"quantization": "int8"}]),
    },
)
ORT = st.fixed_dictionaries(
    {},
    optional={
        "model_file": TEXTS,
        "session_options": OPTIONS,
        "provider_options": OPTIONS | st.none(),
    },
)
NEWER = st.fixed_dictionaries(
    {},
    optional={
        "variant_directory": TEXTS,
        "ep": EPS,
        "device": DEVICES,
        "executor_info": st.fixed_dictionaries({}, optional={"ort": ORT, "other": ORT}),
        "additional_metadata": st.sampled_from(
            [None, {"ortpkg": {"constraints": {"architecture": "x"}}}, {"ortpkg": 1}]
        ),
    },
)
NAMES = st.sampled_from(["cpu", "gpu", "link", "none", "con"])


@given(
    older=st.dictionaries(NAMES, OLDER, max_size=3),
    newer=st.none() | st.dictionaries(NAMES, NEWER, max_size=3),
    inline=st.none() | st.dictionaries(NAMES, OLDER, max_size=2),
)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_variants_say_the_package_is_refused_with_an_error_or_keeps_to_its_folder(
    odd_folders: Path,
    older: dict[str, Any],
    newer: dict[str, Any] | None,
    inline: dict[str, Any] | None,
) -> None:
    documents = universal()
    manifest, body = documents["manifest.json"], documents["models/c/metadata.json"]
    body["model_variants"] |= older
    body["variants"] |= newer or {}
    if newer is None:
        del body["variants"], manifest["schema_version"], manifest["components"]
    if inline is not None:
        manifest["component_models"] = {"c": {"model_variants": inline}}
    (odd_folders / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (odd_folders / "models/c/metadata.json").write_text(json.dumps(body), encoding="utf-8")
    package, findings = check_package(odd_folders)
    assert (package is None) == any(each.severity is Severity.ERROR for each in findings)
    for variant in () if package is None else package.components[0].variants:
        inside = odd_folders.resolve()
        assert variant.directory.resolve().is_relative_to(inside)
        assert variant.model_path is None or variant.model_path.resolve().is_relative_to(inside)


@pytest.fixture
def odd_folders(write_package: WritePackage) -> Path:
    """The package with more files than it names, and links where the machine lets us make them."""
    root = write_package(
        {**universal(), "models/c/gpu/sub/m.onnx": "", "models/c/m": "", "models/c/gpu/m": ""}
    )
    try:
        (root / "models/c/link").symlink_to("gpu", target_is_directory=True)
        (root / "models/c/cpu/link.onnx").symlink_to("m.onnx")
        (root / "models/c/gpu/link.onnx").symlink_to("/")
    except OSError:
        pass
    return root
