"""What onnxruntime 1.28 to 1.32 select, how they read references, what sessions become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.case import (
    CPU_DEVICE,
    EXPERIMENTAL_LINES,
    LINES_FROM_1_32,
    LINES_UP_TO_1_31,
    PREFER_CPU,
    STABLE_LINES,
    WITH_AZURE,
    Case,
    Refused,
    one_variant,
    variants,
)
from tests.interop.packages import (
    AZURE,
    CPU,
    Content,
    Folder,
    Link,
    Model,
    Tree,
    Weights,
    component_manifest,
    inline,
    ort_variant,
)
from tests.interop.protocol import Eps, Reference, Stage

_NO_VARIANT = Refused("No suitable model variant found", Stage.SELECT)
_OPTION = Stage.SESSION, 2

_DIGEST = "0123456789abcdef" * 4
_ASSET = f"sha256:{_DIGEST}"
_ASSETS = f"shared_assets/sha256-{_DIGEST}"
_OTHER_ASSET = "sha256:" + "f" * 64


def _two(first: Mapping[str, Any], second: Mapping[str, Any]) -> Tree:
    return variants({"first": first, "second": second})


SELECT_CASES: tuple[Case, ...] = (
    Case(
        id="select-no-ep-means-cpu",
        says="without execution providers the CPU's variant is selected",
        tree=_two({"ep": AZURE}, {"ep": CPU}),
        component="c",
        variant="second",
    ),
    Case(
        id="C81",
        says="the appended execution provider selects",
        tree=_two({"ep": CPU}, {"ep": AZURE}),
        component="c",
        eps=WITH_AZURE,
        variant="second",
    ),
    Case(
        id="select-cpu-device",
        says="the CPU's device selects the CPU's variant",
        tree=_two({"ep": AZURE}, {"ep": CPU}),
        component="c",
        eps=CPU_DEVICE,
        variant="second",
    ),
    Case(
        id="select-policy-prefer-cpu",
        says="a policy selects",
        tree=_two({"ep": AZURE}, {"ep": CPU}),
        component="c",
        eps=PREFER_CPU,
        variant="second",
    ),
    Case(
        id="select-first-ep-only",
        says="the second execution provider is not tried",
        tree=one_variant(ep=CPU),
        component="c",
        eps=Eps(appended=("AZURE",), devices_of=(CPU,)),
        refused=_NO_VARIANT,
    ),
    Case(
        id="select-full-ep-name",
        says="names are compared in full, with case",
        tree=_two({"ep": "azureexecutionprovider"}, {"ep": "AZURE"}),
        component="c",
        eps=WITH_AZURE,
        refused=_NO_VARIANT,
    ),
    *(
        Case(
            id=f"select-ep-{name}",
            says="a variant without an execution provider is never selected",
            tree=one_variant(**keys),
            component="c",
            eps=eps,
            refused=_NO_VARIANT,
        )
        for name, keys, eps in (
            ("unset", {}, Eps()),
            ("empty", {"ep": ""}, Eps()),
            ("unset-azure", {}, WITH_AZURE),
        )
    ),
    *(
        Case(
            id=f"select-cpu-with-device-{name}",
            says="a device keeps a CPU variant from being selected, whatever the way to the CPU",
            tree=one_variant(ep=CPU, device="cpu"),
            lines=LINES_UP_TO_1_31,
            component="c",
            eps=eps,
            refused=_NO_VARIANT,
        )
        for name, eps in (("default", Eps()), ("device", CPU_DEVICE), ("policy", PREFER_CPU))
    ),
    *(
        Case(
            id=f"select-cpu-with-device-{name}-1.32",
            says="the CPU's execution provider has the CPU, whatever the way to it",
            tree=one_variant(ep=CPU, device="cpu"),
            lines=LINES_FROM_1_32,
            component="c",
            eps=eps,
            variant="v",
        )
        for name, eps in (("default", Eps()), ("device", CPU_DEVICE), ("policy", PREFER_CPU))
    ),
    Case(
        id="select-cpu-with-other-device-1.32",
        says="and no other device",
        tree=one_variant(ep=CPU, device="npu"),
        lines=LINES_FROM_1_32,
        component="c",
        refused=_NO_VARIANT,
    ),
    Case(
        id="select-device-without-hardware",
        says="where an execution provider has no hardware devices, no device matches",
        tree=_two({"ep": AZURE, "device": "cpu"}, {"ep": AZURE}),
        component="c",
        eps=WITH_AZURE,
        variant="second",
    ),
    Case(
        id="select-device-empty",
        says="an empty device is none",
        tree=one_variant(ep=CPU, device=""),
        component="c",
        variant="v",
    ),
    Case(
        id="select-compatibility-unasked",
        says=(
            "an execution provider that rates nothing is not applicable, which is no obstacle and"
            " no merit"
        ),
        tree=_two({"ep": AZURE, "compatibility_string": "x"}, {"ep": AZURE}),
        component="c",
        eps=WITH_AZURE,
        variant="first",
    ),
    Case(
        id="C95",
        says="of equals the first written one is selected",
        tree=variants({name: {"ep": CPU} for name in ("z", "a", "m")}),
        component="c",
        variant="z",
    ),
    Case(
        id="select-unknown-component",
        says="a component that is not there",
        tree=one_variant(ep=CPU),
        component="d",
        refused=Refused("Component model not found", Stage.SELECT, code=2),
    ),
    Case(
        id="select-no-variants",
        says="a component without variants",
        tree=variants({}),
        component="c",
        refused=_NO_VARIANT,
    ),
    Case(
        id="C99",
        says="selection needs no payload, and gives the variant's directory",
        tree={**one_variant(ep=CPU), "v": Folder()},
        component="c",
        variant="v",
        directory="v",
    ),
    Case(
        id="select-directory-of-external-component",
        says="the directory of a variant lies beside the component's document",
        tree={
            "manifest.json": component_manifest({"c": "models/c/any.json"}),
            "models/c/any.json": {"variants": {"v": {"ep": CPU}}},
            "models/c/v": Folder(),
        },
        component="c",
        variant="v",
        directory="models/c/v",
    ),
    Case(
        id="select-directory-through-link",
        says="a link's target is what is reported",
        tree={**one_variant(ep=CPU), "real": Folder(), "v": Link("real")},
        component="c",
        variant="v",
        directory="real",
    ),
)

_REFERENCES: dict[str, Content] = {
    "manifest.json": component_manifest({}, shared_assets={_OTHER_ASSET: "elsewhere"}),
    f"{_ASSETS}/asset.txt": "a",
    f"{_ASSETS}/out": Link("../../file.txt"),
    "elsewhere/e.txt": "e",
    "file.txt": "f",
    "d/file.txt": "f",
}


def _resolves(
    name: str, says: str, text: str, to: str | Refused, *, base: str = "", must_exist: bool = True
) -> Case:
    reference = Reference(text=text, base=base, must_exist=must_exist)
    return Case(
        id=name, says=says, tree=_REFERENCES, references=((reference, to),), posix_names=True
    )


REFERENCE_CASES: tuple[Case, ...] = (
    _resolves("C83", "an asset's digest is its directory", _ASSET, _ASSETS),
    _resolves(
        "C84", "a path behind it is a file in it", f"{_ASSET}/asset.txt", f"{_ASSETS}/asset.txt"
    ),
    _resolves(
        "C85", "a path is relative to the directory given", "file.txt", "d/file.txt", base="d"
    ),
    _resolves(
        "C86",
        "an asset must be known, even if it need not exist",
        "sha256:" + "e" * 64,
        Refused("Asset URI not declared"),
        must_exist=False,
    ),
    _resolves("reference-default-base", "by default to the package", "file.txt", "file.txt"),
    _resolves(
        "reference-override",
        "an override is where its asset is",
        f"{_OTHER_ASSET}/e.txt",
        "elsewhere/e.txt",
    ),
    _resolves(
        "reference-asset-slash", "nothing behind the slash is the directory", f"{_ASSET}/", _ASSETS
    ),
    _resolves(
        "reference-missing", "what must exist must exist", "nowhere", Refused("does not exist")
    ),
    _resolves(
        "reference-missing-allowed",
        "what need not need not",
        "nowhere",
        "nowhere",
        must_exist=False,
    ),
    _resolves(
        "reference-asset-missing-file", "in assets too", f"{_ASSET}/no", Refused("does not exist")
    ),
    _resolves(
        "reference-empty", "an empty reference is refused", "", Refused("input must not be empty")
    ),
    _resolves(
        "reference-dot-dot",
        "a path stays inside",
        "../x",
        Refused("'..' segments"),
        must_exist=False,
    ),
    _resolves("reference-dot-dot-inside", "without ..", "d/../file.txt", Refused("'..' segments")),
    _resolves("reference-three-dots", "three dots are a name", "...", "...", must_exist=False),
    _resolves(
        "reference-absolute",
        "no absolute path",
        "/x",
        Refused("absolute or drive-rooted path"),
        must_exist=False,
    ),
    _resolves(
        "reference-asset-dot-dot",
        "nor out of an asset",
        f"{_ASSET}/../x",
        Refused("'..' segments"),
        must_exist=False,
    ),
    _resolves(
        "reference-asset-absolute",
        "two slashes are an absolute path",
        f"{_ASSET}//asset.txt",
        Refused("absolute or drive-rooted path"),
    ),
    _resolves(
        "reference-asset-link",
        "a link in an asset stays in it",
        f"{_ASSET}/out",
        Refused("escapes package_root"),
    ),
    *(
        _resolves(
            f"reference-not-an-asset-{index}",
            "what only looks like an asset is a file's name",
            text,
            text,
            must_exist=False,
        )
        for index, text in enumerate(
            ("sha256:short", f"sha256:{'A' * 64}", f"SHA256:{_DIGEST}", f"{_ASSET} /x")
        )
    ),
    _resolves(
        "reference-base-outside",
        "the directory must be inside as well",
        "x",
        Refused("escapes package_root"),
        base="..",
        must_exist=False,
    ),
)


def _session(
    name: str,
    says: str,
    options: Mapping[str, Any],
    *,
    refused: Refused | None = None,
    own_options: Mapping[str, str] | None = None,
    lines: range | None = None,
) -> Case:
    case: dict[str, Any] = {} if lines is None else {"lines": lines}
    return Case(
        id=name,
        says=says,
        tree={
            "manifest.json": inline({"v": ort_variant(session_options=options)}),
            "v/model.onnx": Model(3.0),
        },
        component="c",
        session=True,
        own_options=own_options,
        refused=refused,
        offset=None if refused else 3.0,
        **case,
    )


_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"

SESSION_CASES: tuple[Case, ...] = (
    Case(
        id="C89",
        says="the selected variant runs with the caller's session options",
        tree={
            "manifest.json": inline(
                {"cpu": ort_variant(), "npu": ort_variant("QNNExecutionProvider", device="npu")}
            ),
            "cpu/model.onnx": Model(1.0),
            "npu/model.onnx": Model(2.0),
        },
        component="c",
        session=True,
        own_options={"session.intra_op_num_threads": "1"},
        variant="cpu",
        offset=1.0,
    ),
    Case(
        id="C102",
        says="an execution provider without devices, and no device asked for",
        tree={"manifest.json": inline({"v": ort_variant(AZURE)}), "v/model.onnx": Model(1.0)},
        component="c",
        eps=WITH_AZURE,
        session=True,
        variant="v",
        offset=1.0,
    ),
    Case(
        id="session-provider-options-dropped",
        says="provider options of an execution provider without devices are left out in silence",
        tree={
            "manifest.json": inline(
                {"v": ort_variant(AZURE, provider_options={"no_such_option": "1"})}
            ),
            "v/model.onnx": Model(1.0),
        },
        lines=LINES_UP_TO_1_31,
        component="c",
        eps=WITH_AZURE,
        session=True,
        offset=1.0,
    ),
    *(
        Case(
            id=f"session-provider-options-{name}-1.32",
            says="provider options of one without devices, and of the CPU's, end the session",
            tree={
                "manifest.json": inline({"v": ort_variant(ep, provider_options={"k": "1"})}),
                "v/model.onnx": Model(1.0),
            },
            lines=LINES_FROM_1_32,
            component="c",
            eps=eps,
            session=True,
            refused=Refused("does not expose OrtEpDevices", Stage.SESSION, code=9),
        )
        for name, ep, eps in (("azure", AZURE, WITH_AZURE), ("cpu", CPU, Eps()))
    ),
    Case(
        id="session-provider-options-beside-own",
        says="but for a caller with session options of his own, for whom they do not count",
        tree={
            "manifest.json": inline({"v": ort_variant(provider_options={"k": "1"})}),
            "v/model.onnx": Model(1.0),
        },
        component="c",
        session=True,
        own_options={"k": "v"},
        offset=1.0,
    ),
    Case(
        id="session-no-payload",
        says="without a payload there is no session",
        tree={**one_variant(ep=CPU), "v/model.onnx": Model(1.0)},
        component="c",
        session=True,
        refused=Refused('has no executor_info["ort"]["model_file"]', Stage.SESSION),
    ),
    Case(
        id="session-model-file-left-out",
        says="nor without its model_file: no .onnx file is looked for",
        tree={**one_variant(ep=CPU, executor_info={"ort": {}}), "v/model.onnx": Model(1.0)},
        component="c",
        session=True,
        refused=Refused('has no executor_info["ort"]["model_file"]', Stage.SESSION),
    ),
    Case(
        id="session-model-file-missing",
        says="a model file that is missing is found out when the session is made",
        tree={"manifest.json": inline({"v": ort_variant()}), "v": Folder()},
        component="c",
        session=True,
        refused=Refused("File doesn't exist", Stage.SESSION, code=3),
    ),
    Case(
        id="session-without-directory",
        says="without a directory of the variant its model lies in the package's",
        tree={"manifest.json": inline({"v": ort_variant()}), "model.onnx": Model(4.0)},
        component="c",
        session=True,
        offset=4.0,
    ),
    Case(
        id="session-external-payload",
        says="a payload in a file runs as one inline",
        tree={
            "manifest.json": inline({"v": {"ep": CPU, "executor_info": {"ort": "ort.json"}}}),
            "v/ort.json": {"model_file": "sub/model.onnx"},
            "v/sub/model.onnx": Model(5.0),
        },
        component="c",
        session=True,
        offset=5.0,
    ),
    Case(
        id="session-model-in-asset",
        says="a model may lie in a shared asset",
        tree={
            "manifest.json": inline({"v": ort_variant(model_file=f"{_ASSET}/m.onnx")}),
            f"{_ASSETS}/m.onnx": Model(6.0),
        },
        component="c",
        session=True,
        offset=6.0,
    ),
    *(
        Case(
            id=name,
            says=says,
            tree={
                "manifest.json": inline(
                    {"v": ort_variant(session_options={_WEIGHTS_FOLDER: "weights"})}
                ),
                "v/model.onnx": Model(0.0, "w.bin"),
                "v/weights/w.bin": Weights(7.0),
            },
            component="c",
            session=True,
            own_options=own_options,
            offset=7.0,
        )
        for name, says, own_options in (
            ("C97", "the weights' folder is relative to the variant", None),
            ("C98", "and holds with the caller's own session options, too", {}),
        )
    ),
    Case(
        id="session-own-folder-wins",
        says="unless the caller's have a folder",
        tree={
            "manifest.json": inline(
                {"v": ort_variant(session_options={_WEIGHTS_FOLDER: "weights"})}
            ),
            "v/model.onnx": Model(0.0, "w.bin"),
            "v/weights/w.bin": Weights(7.0),
        },
        component="c",
        session=True,
        own_options={_WEIGHTS_FOLDER: "/nowhere"},
        refused=Refused("External data path does not exist", Stage.SESSION),
    ),
    _session(
        "C96",
        "an option that must be a number is checked when the session is made",
        {"session.intra_op_num_threads": "not_an_int"},
        refused=Refused("session.intra_op_num_threads", *_OPTION),
    ),
    _session(
        "session-own-options-replace",
        "the caller's own session options replace the package's",
        {"session.intra_op_num_threads": "not_an_int"},
        own_options={},
    ),
    *(
        _session(f"session-{key}-{value}", "a typed option with a value of its type", {key: value})
        for key, value in (
            ("session.inter_op_num_threads", "2"),
            ("session.log_severity_level", "3"),
            ("session.log_verbosity_level", "0"),
            ("session.enable_cpu_mem_arena", "false"),
            ("session.enable_mem_pattern", "0"),
            ("session.use_deterministic_compute", "1"),
            ("session.execution_mode", "parallel"),
            ("session.graph_optimization_level", "enable_layout"),
            ("session.log_id", "any text"),
            ("session.intra_op_thread_count", "not a key that there is"),
        )
    ),
    *(
        _session(
            f"session-{key}-{value}",
            "a typed option with a value of another",
            {key: value},
            refused=Refused(key.removeprefix("session."), *_OPTION),
        )
        for key, value in (
            ("session.inter_op_num_threads", "1.5"),
            ("session.log_severity_level", "warning"),
            ("session.enable_cpu_mem_arena", "yes"),
            ("session.enable_mem_pattern", "2"),
            ("session.execution_mode", "both"),
            ("session.graph_optimization_level", "99"),
        )
    ),
    _session(
        "session-empty-key", "an empty key", {"": "x"}, refused=Refused("empty or longer", *_OPTION)
    ),
    _session(
        "session-key-with-nul-1.28",
        "a key with a NUL inside is cut off there",
        {"a\0b": "x"},
        lines=EXPERIMENTAL_LINES,
    ),
    Case(
        id="session-key-with-nul-1.31",
        says="a key with a NUL inside is refused",
        tree={**one_variant(ep=CPU, executor_info={"ort": {"session_options": {"a\0b": "x"}}})},
        lines=STABLE_LINES,
        refused=Refused("session_options"),
    ),
)

RUN_CASES: tuple[Case, ...] = (*SELECT_CASES, *REFERENCE_CASES, *SESSION_CASES)
