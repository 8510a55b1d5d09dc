"""migrate-check: what each line of onnxruntime releases does with a package."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortpkg import ModelPackage, validate
from ortpkg.authoring.create import add_variant, create, init_package
from ortpkg.authoring.migration import OTHER_EP, ReleaseReport, migrate_check
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import PackageFormatError, PackageNotFoundError, UsageError
from ortpkg.package.reader import open_package
from tests.authoring.checks.trees import context_model
from tests.authoring.conftest import ModelMaker

OPENVINO = "OpenVINOExecutionProvider"
CPU, CUDA, AZURE = "CPUExecutionProvider", "CUDAExecutionProvider", "AzureExecutionProvider"


def chosen(report: ReleaseReport) -> dict[tuple[str | None, str | None], str | None]:
    return {(each.ep, each.device): each.variant for each in report.choices}


@pytest.mark.parametrize(
    ("form", "opened"),
    [
        ("universal", [True, True, True, True]),
        ("metadata", [True, False, False, False]),
        ("component", [False, True, True, True]),
    ],
)
def test_each_format_is_opened_by_the_releases_that_it_is_for(
    tmp_path: Path, make_model: ModelMaker, form: str, opened: list[bool]
) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))], form=form).root

    assert [report.opens for report in migrate_check(root)] == opened


def test_releases_select_by_their_own_rules(tmp_path: Path, make_model: ModelMaker) -> None:
    models = [
        NewVariant.for_cpu(make_model("cpu")),
        NewVariant(model=make_model("cuda"), ep="cuda", device="gpu"),
        NewVariant.for_gpu(make_model("any-gpu")),
    ]
    root = create(tmp_path / "p", models, notify=lambda _: None).root

    older, newer, *_, newest = migrate_check(root, eps=["azure"])

    assert chosen(older) == {
        (None, None): None,
        (CPU, "cpu"): None,
        (CUDA, "gpu"): "cuda",
        (OTHER_EP, "gpu"): "any-gpu",
        (AZURE, None): "any-gpu",
        (AZURE, "cpu"): None,
        (AZURE, "gpu"): "any-gpu",
    }
    assert chosen(newest)[None, None] == "cpu"
    assert chosen(newest)[CUDA, "gpu"] == "cuda"
    assert chosen(newest)[OTHER_EP, "gpu"] is None
    assert dict(older.never_selected).keys() == {"model/cpu"}
    assert newest.never_selected == (
        ("model/any-gpu", "it names no EP, and only variants that do are selected"),
    )
    assert (newer.choices, newer.never_selected) == (newest.choices, newest.never_selected)


def test_the_device_of_a_cpu_variant_is_a_trap_up_to_1_31(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))], form="component").root
    document = root / "models/model/component.json"
    component = json.loads(document.read_bytes())
    component["variants"]["a"]["device"] = "cpu"
    document.write_text(json.dumps(component))

    _, _, newer, *_, newest = migrate_check(root)

    assert not newest.never_selected
    assert chosen(newest) == {(None, None): "a", (CPU, "cpu"): "a"}
    ((variant, reason),) = newer.never_selected
    assert variant == "model/a"
    assert "exposes no devices" in reason


def test_a_tie_is_unpredictable_in_the_older_releases_and_goes_to_the_first_in_the_newer(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    models = [NewVariant(model=make_model(name), ep="cuda") for name in ("b", "a")]
    root = create(tmp_path / "p", models).root

    older, *_, newest = migrate_check(root)

    (unsure,) = (each for each in older.choices if each.ep == CUDA)
    assert sorted(unsure.alternatives) == ["a", "b"]
    assert chosen(newest)[CUDA, None] == "b"
    assert [name for name, _ in newest.never_selected] == ["model/a"]


def test_session_options_that_write_files_are_refused_from_1_31_on(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))], form="component").root
    document = root / "models/model/component.json"
    component = json.loads(document.read_bytes())
    ort = component["variants"]["a"]["executor_info"]["ort"]
    ort["session_options"] = {"session.enable_profiling": "1"}
    document.write_text(json.dumps(component))

    _, newer, *_, newest = migrate_check(root)

    assert newer.opens
    assert any("writes files where the package says" in what for what in newer.ignored)
    (refusal,) = newest.refusals
    assert refusal.startswith(
        "models/model/component.json/variants/a/executor_info/ort/session_options/"
    )
    assert refusal.endswith(": session option 'session.enable_profiling' writes a file")


def test_says_what_is_passed_over(tmp_path: Path, make_model: ModelMaker) -> None:
    options = {"device_type": "NPU"}
    model = NewVariant(
        model=make_model("a"), ep="openvino", architecture="x", provider_options=options
    )
    root = create(tmp_path / "p", [model]).root

    older, *_, newest = migrate_check(root)

    assert older.ignored == (
        "schema_version, components and variants: the keys for later releases",
        "provider_options of 'a'",
        "architecture of 'a', which is never matched",
    )
    assert newest.ignored == (
        "model_name, component_models and model_variants: the keys for earlier releases",
        "architecture of 'a', which is not part of the format",
    )


def test_several_components_are_refused_by_the_older_releases(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = init_package(tmp_path / "p").root
    for name in ("encoder", "decoder"):
        add_variant(root, make_model(name), component=name, ep="cpu")

    older, *_, newest = migrate_check(root)

    assert older.refusals == (
        "manifest.json/component_models: has 2 component models; exactly one is read",
    )
    assert {each.component for each in newest.choices} == {"encoder", "decoder"}


def test_refuses_what_is_no_package_and_an_ep_that_nobody_knows(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))]).root

    with pytest.raises(PackageNotFoundError, match=r"neither manifest\.json nor metadata\.json"):
        migrate_check(tmp_path)
    with pytest.raises(UsageError, match="there is no execution provider 'cudaa'"):
        migrate_check(root, eps=["cudaa"])


def _written(root: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(
            content if isinstance(content, bytes) else json.dumps(content).encode()
        )
    return root


_AZURE_VARIANT = {"model_file": "model.onnx", "constraints": {"ep": AZURE}}


@pytest.mark.parametrize(
    ("files", "variant"),
    [
        pytest.param(
            {"models/c/metadata.json": {"model_variants": {"a:b": _AZURE_VARIANT}}, "models/c/a:b/model.onnx": b""},
            "a:b",
            id="a-name-that-windows-does-not-have",
        ),
        pytest.param(
            {
                "models/c/metadata.json": {
                    "model_variants": {"v": {**_AZURE_VARIANT, "model_file": "../../../other.onnx"}}
                },
                "models/c/v/x": b"",
                "other.onnx": b"",
            },
            "v",
            id="a-path-that-comes-back",
        ),
        pytest.param(
            {
                "models/c/metadata.json": {
                    "model_variants": {"v": {"model_file": "model.onnx", "constraints": {"ep": AZURE, "device": 1}}}
                },
                "models/c/v/model.onnx": b"",
            },
            "v",
            id="a-device-that-is-no-text",
        ),
    ],
)  # fmt: skip
def test_what_we_refuse_and_1_27_opens_is_foretold(
    tmp_path: Path, files: dict[str, Any], variant: str
) -> None:
    root = _written(tmp_path, {"manifest.json": {"model_name": "m"}, **files})
    with pytest.raises(PackageFormatError):
        open_package(root)

    older = migrate_check(root)[0]

    assert older.opens
    assert chosen(older)[AZURE, None] == variant


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param(
            {
                "models/c/metadata.json": {"model_variants": {"v": {"file": "a.onnx"}}},
                "models/c/v/a.onnx": b"",
                "models/c/v/b.onnx": b"",
            },
            "has 2 ONNX files in 'v', and names none of them",
            id="the-drafts-key-does-not-choose",
        ),
        pytest.param(
            {"models/c/metadata.json": {"model_variants": {"v": {"model_file": "v/a.onnx"}}}, "models/c/v/a.onnx": b""},
            "has no model file 'v/a.onnx'",
            id="nothing-is-relative-to-the-component",
        ),
        pytest.param(
            {"models/c/metadata.json": {"model_variants": {"v": {}}}, "models/c/v": b""},
            "has no folder 'v' that can be read: Not a directory",
            id="a-file-is-no-folder",
        ),
    ],
)  # fmt: skip
def test_refusals_of_1_27_are_those_of_its_policy_too(
    tmp_path: Path, files: dict[str, Any], message: str
) -> None:
    root = _written(tmp_path, {"manifest.json": {"model_name": "m"}, **files})

    (refusal,) = migrate_check(root)[0].refusals

    assert message in refusal
    findings = validate(root, targets=["onnxruntime-1.27"])
    assert [message in each.message for each in findings if each.rule == "ORT701"] == [True]
    with contextlib.suppress(PackageFormatError):  # where we open it
        selection = ModelPackage(root).select(policy="onnxruntime-1.27", ep="azure")
        assert all(message in verdict.reason for verdict in selection.verdicts)


def test_1_27_reads_no_manifest_beside_metadata_of_the_root(tmp_path: Path) -> None:
    files = {
        "manifest.json": {"model_name": "m", "component_models": {"c": {"model_variants": {}}}},
        "metadata.json": {"model_variants": {"v": _AZURE_VARIANT}},
        "v/model.onnx": b"",
    }
    older = migrate_check(_written(tmp_path, files))[0]

    assert older.opens
    assert chosen(older)[AZURE, None] == "v"


def test_1_27_has_no_limits_of_ours(tmp_path: Path) -> None:
    deep = b"[" * 5000 + b"]" * 5000
    metadata = (
        b'{"unknown": '
        + deep
        + b', "model_variants": '
        + json.dumps({"v": _AZURE_VARIANT}).encode()
        + b"}"
    )
    root = _written(
        tmp_path,
        {
            "manifest.json": {"model_name": "m"},
            "models/c/metadata.json": metadata,
            "models/c/v/model.onnx": b"",
        },
    )

    assert migrate_check(root)[0].opens
    (tmp_path / "models/c/metadata.json").write_bytes(metadata.replace(b"[]", b"[,]"))
    assert not migrate_check(root)[0].opens


def test_a_variant_whose_model_is_no_file_can_be_selected_by_1_27_and_not_run(
    tmp_path: Path,
) -> None:
    variants = {"v\0x": {"model_file": "", "constraints": {"ep": AZURE}}}
    files = {
        "manifest.json": {"model_name": "m"},
        "models/c/metadata.json": {"model_variants": variants},
        "models/c/v/model.onnx": b"",
    }
    choices = {each.ep: each for each in migrate_check(_written(tmp_path, files))[0].choices}

    assert choices[AZURE].variant == "v\0x"
    assert (choices[AZURE].can_run, "no file" in choices[AZURE].reason) == (False, True)


_OWN = b"ORTPKG EPCTX\x00\x00\x00\x01 and so on"
_OURS, _THEIRS = (
    "openvino;sdk=2026.4.1;device=CPU;architecture=zen4",
    '{"ovep_compat_ver":"1.0","ovep_bin_ver":"1.1","ov_compat_string":"x"}',
)


@pytest.mark.parametrize(
    ("info", "binary", "selected", "reason", "can_run"),
    [
        (_OURS, _OWN, None, "does not support what it was compiled for: 'openvino;sdk=", False),
        (
            None,
            _OWN,
            "ov",
            "it can be selected, but not run: its contexts lie in ortpkg's own container",
            False,
        ),
        (_THEIRS, b"OVEP_BIN", "ov", "", True),
    ],
    ids=["ours", "without-a-string", "onnxruntimes"],
)
def test_foretells_what_becomes_of_compiled_contexts(
    tmp_path: Path,
    make_model: ModelMaker,
    info: str | None,
    binary: bytes,
    selected: str | None,
    reason: str,
    can_run: bool,
) -> None:
    folder = tmp_path / "compiled"
    folder.mkdir()
    (folder / "net.onnx").write_bytes(context_model(source=OPENVINO))
    (folder / "net.bin").write_bytes(binary)
    signature = "(float[n, 4] x) => (float[n, 4] y)"
    models = [
        NewVariant.for_cpu(make_model("cpu", signature=signature)),
        NewVariant(
            model=folder / "net.onnx",
            name="ov",
            ep="openvino",
            device="cpu",
            compatibility_info=info,
        ),
    ]
    root = create(tmp_path / "p", models, notify=lambda _: None).root

    *_, newest = migrate_check(root)

    (choice,) = [each for each in newest.choices if (each.ep, each.device) == (OPENVINO, "cpu")]
    reasons = " ".join((choice.reason, *(why for _, why in newest.never_selected)))
    assert (choice.variant, choice.can_run) == (selected, can_run)
    assert reason in reasons


def test_a_context_for_onnxruntime_is_selected_where_its_ep_rates_it_optimal(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    """It does so on a machine like the one it was compiled on: the string is for that."""
    folder = tmp_path / "compiled"
    folder.mkdir()
    (folder / "net.onnx").write_bytes(context_model(source=OPENVINO))
    (folder / "net.bin").write_bytes(b"OVEP_BIN")
    plain = make_model("plain", signature="(float[n, 4] x) => (float[n, 4] y)")
    models = [NewVariant(model=plain, name="plain", ep="openvino", device="cpu")]
    for name, info in (("theirs", _THEIRS), ("ours", _OURS)):
        context = folder / "net.onnx"
        models.append(
            NewVariant(
                model=context, name=name, ep="openvino", device="cpu", compatibility_info=info
            )
        )
    root = create(tmp_path / "p", models, notify=lambda _: None).root
    *_, newest = migrate_check(root)
    found = [
        (each.rated_optimal, each.variant, each.can_run)
        for each in newest.choices
        if (each.ep, each.device) == (OPENVINO, "cpu")
    ]
    assert found == [(None, "plain", True), ("theirs", "theirs", True)]
    assert [name.rpartition("/")[2] for name, _ in newest.never_selected] == ["ours"]


def test_foretells_which_releases_refuse_the_value_of_a_session_option(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    options = {"session.kernel_dispatch_policy": "fast"}
    variant = replace(NewVariant.for_cpu(make_model("cpu")), session_options=options)
    root = create(tmp_path / "p", [variant], notify=lambda _: None).root

    oldest, *_, last_but_one, newest = migrate_check(root)

    chosen = [
        choice
        for report in (last_but_one, newest)
        for choice in report.choices
        if choice.ep == CPU_EP
    ]
    assert oldest.opens
    assert [choice.can_run for choice in chosen] == [True, False]
    assert chosen[1].reason == (
        "it can be selected, but not run: 'session.kernel_dispatch_policy' takes auto, latency,"
        " memory, safe or nothing in onnxruntime 1.32, not 'fast'"
    )
