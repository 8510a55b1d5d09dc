"""Packages of the component generation with two verdicts: ours, and onnxruntime 1.31's.

Data only. A verdict is ``OPENS``, or the rule or status of a finding that refuses the package. The
verdicts of onnxruntime were observed by opening the same packages with its C API.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OPENS = "opens"
MODEL = "v/model.onnx"
HEX = 64 * "a"
OTHER_HEX = 64 * "b"
ASSET = f"sha256:{HEX}"
ASSET_FOLDER = f"shared_assets/sha256-{HEX}"
OUTSIDE = "OUTSIDE"
"""Stands, in link targets and in documents, for an absolute folder beside the package, with files
of its own.
"""
OUTSIDE_FILES = {
    "manifest.json": '{"schema_version": "1.0", "components": {}}',
    "component.json": '{"variants": {}}',
    "model.onnx": "",
    "component/component.json": '{"variants": {}}',
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One package.

    Attributes:
        name: what it is about.
        strict, compat: the verdicts.
        files: path → text, or a JSON value.
        links: path → target of a symbolic link.
    """

    name: str
    strict: str
    compat: str
    files: dict[str, Any]
    links: dict[str, str] = field(default_factory=dict)


def write_case(case: Case, folder: Path) -> Path:
    """Writes the package into ``folder``, with what lies outside of it; returns its root.

    OSError where the machine does not let us make links.
    """
    outside, root = folder / "outside", folder / "p.ortpackage"
    root.mkdir()
    for name, text in OUTSIDE_FILES.items():
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(text, encoding="utf-8")
    for name, content in case.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text.replace(OUTSIDE, outside.as_posix()), encoding="utf-8", newline="")
    for name, target in case.links.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        there = Path(target.replace(OUTSIDE, str(outside)))
        (root / name).symlink_to(there, target_is_directory=((root / name).parent / there).is_dir())
    return root


def package(
    body: Any = None, *, name: str = "v", version: Any = "1.0", **manifest: Any
) -> dict[str, Any]:
    """One inline component ``c`` with one variant, whose folder ``v`` holds a model."""
    variant = {"executor_info": {"ort": {"model_file": "model.onnx"}}} if body is None else body
    return component({"variants": {name: variant}}, version=version, **manifest)


def component(body: Any, *, version: Any = "1.0", **manifest: Any) -> dict[str, Any]:
    document = {"schema_version": version, "components": {"c": body}} | manifest
    return {"manifest.json": document, MODEL: ""}


def ort(payload: Any, **manifest: Any) -> dict[str, Any]:
    return package({"executor_info": {"ort": payload}}, **manifest)


def text(document: str) -> dict[str, Any]:
    return {"manifest.json": document}


PLAIN = json.dumps({"schema_version": "1.0", "components": {}})


def metadata_text(value: str) -> dict[str, Any]:
    return text(f'{PLAIN[:-1]}, "additional_metadata": {value}}}')


def case(
    name: str, strict: str, compat: str, files: dict[str, Any], links: dict[str, str] | None = None
) -> Case:
    return Case(name=name, strict=strict, compat=compat, files=files, links=links or {})


IO, SCHEMA, VERSION, CONFINEMENT, ASSET_MISSING, NOT_FOUND, INVALID_ARG, FAIL = (
    f"ORTC-{status}"
    for status in (
        "IO", "SCHEMA", "VERSION", "PATH_CONFINEMENT", "ASSET_MISSING", "NOT_FOUND", "INVALID_ARG",
        "FAIL",
    )
)  # fmt: skip

JSON_CASES = (
    case("byte order mark", OPENS, OPENS, text("\ufeff" + PLAIN)),
    case("two byte order marks", "ORT003", SCHEMA, text("\ufeff\ufeff" + PLAIN)),
    case("empty document", "ORT003", SCHEMA, text("")),
    case("comment", "ORT003", SCHEMA, text("/* */" + PLAIN)),
    case("trailing comma", "ORT003", SCHEMA, text(PLAIN[:-1] + ",}")),
    case("trailing text", "ORT003", SCHEMA, text(PLAIN + " x")),
    case("text after a NUL", "ORT003", OPENS, text(PLAIN + "\0 x")),
    case("NaN", "ORT003", SCHEMA, metadata_text("NaN")),
    case("number that overflows a double", "ORT003", SCHEMA, metadata_text("1e999")),
    case("integer that overflows a double", "ORT002", SCHEMA, metadata_text("9" * 400)),
    case("integer of 300 digits", "ORT002", OPENS, metadata_text("9" * 300)),
    case("lone surrogate", "ORT003", SCHEMA, metadata_text('"\\ud800"')),
    case("lone surrogate in what a later equal key replaces", "ORT003 ORT004", SCHEMA, metadata_text(
        '{"k": ["\\ud800"], "k": "\\ud83d\\ude00"}')),
    case("surrogate pair", OPENS, OPENS, metadata_text('"\\ud83d\\ude00"')),
    case("control character in a string", "ORT003", SCHEMA, metadata_text('"\x01"')),
    case("list instead of an object", "ORT005", SCHEMA, text("[]")),
    case("repeated key", "ORT004", OPENS, text('{"schema_version": "9", "schema_version": "1.0", "components": {}}')),
    case("nested 100 deep", "ORT002", OPENS, metadata_text("[" * 100 + "]" * 100)),
    # onnxruntime 1.31 dies of a stack overflow.
    case("nested 100,000 deep", "ORT002", "ORT002", metadata_text("[" * 100_000 + "]" * 100_000)),
    case("100,000 opening brackets", "ORT002", "ORT002", text("[" * 100_000)),
)  # fmt: skip

MANIFEST_CASES = (
    case("no components", OPENS, OPENS, text(PLAIN)),
    case("no schema_version", "ORT005", SCHEMA, text('{"components": {}}')),
    case("no components key", "ORT005", SCHEMA, text('{"schema_version": "1.0"}')),
    case("components is a list", "ORT005", SCHEMA, text('{"schema_version": "1.0", "components": ["c"]}')),
    case("components is a list, as Olive's", "ORT010", SCHEMA, text('{"schema_version": 1, "components": ["c"]}')),
    case("metadata generation", OPENS, SCHEMA, text('{"model_name": "m", "component_models": []}')),
    case("unknown key", "ORT062", SCHEMA, package(anything=1)),
    case("unknown key under a newer minor", OPENS, OPENS, package(version="1.7", anything=1)),
    case("every text", OPENS, OPENS, package(package_name="n", package_version="", description="d", layout="portable")),
    case("additional_metadata is null", OPENS, OPENS, package(additional_metadata=None)),
    *(case(f"{key} is null", "ORT005", SCHEMA, package(None, **dict[str, Any]({key: None})))
      for key in ("package_name", "package_version", "description", "layout", "shared_assets")),
    case("layout in capitals", "ORT005", SCHEMA, package(layout="Portable")),
    case("layout installed", OPENS, OPENS, package(layout="installed")),
    case("asset key too short", "ORT065", SCHEMA, package(shared_assets={"sha256:notenough": "v"})),
    case("asset key in capitals", "ORT065", SCHEMA, package(shared_assets={ASSET.replace("a", "A"): "v"})),
    case("asset key with a path", "ORT065", SCHEMA, package(shared_assets={f"{ASSET}/x": "v"})),
    case("asset path is no text", "ORT005", SCHEMA, package(shared_assets={ASSET: None})),
    case("asset path is empty", "ORT011", INVALID_ARG, package(shared_assets={ASSET: ""})),
    case("asset path leads out", "ORT008", CONFINEMENT, package(shared_assets={ASSET: "../x"})),
    case("asset path does not exist", "ORT010", OPENS, package(shared_assets={ASSET: "x"})),
    case("asset path is a file", "ORT010", OPENS, package(shared_assets={ASSET: MODEL})),
)  # fmt: skip

VERSION_CASES = (
    *(case(f"version {value!r}", OPENS, OPENS, package(version=value))
      for value in ("1.0", "1", 1, "01.00", "1.7", f"1.{2**63 - 1}", "1." + "0" * 40)),
    *(case(f"version {value!r}", "ORT006", VERSION, package(version=value))
      for value in ("2.0", "0.0", 2, 0, -1, 99, 10**19, f"{2**63 - 1}.0")),
    *(case(f"version {value!r}", "ORT005", SCHEMA, package(version=value))
      for value in ("", "1.", ".1", "1.0.0", " 1.0", "+1.0", "-1.0", "1.x", "1.0\n", "\u0661.0", f"1.{2**63}", 1.0,
                    True, None, [1], 10**30)),
    case("version comes first", "ORT006", VERSION, text('{"schema_version": "9.0", "components": 3, "x": 1}')),
)  # fmt: skip

COMPONENT_CASES = (
    case("external file", OPENS, OPENS, component("c.json") | {"c.json": {"variants": {}}}),
    case("external folder", OPENS, OPENS, component("d") | {"d/component.json": {"variants": {}}}),
    case("external folder with a slash", OPENS, OPENS, component("./d/") | {"d/component.json": {"variants": {}}}),
    case("root folder", OPENS, OPENS, component(".") | {"component.json": {"variants": {}}}),
    case("file with a slash", "ORT010", NOT_FOUND, component("c.json/") | {"c.json": {"variants": {}}}),
    case("folder without component.json", "ORT010", NOT_FOUND, component("v")),
    case("nothing there", "ORT010", NOT_FOUND, component("none.json")),
    case("empty path", "ORT011", INVALID_ARG, component("")),
    case("path leads out", "ORT008", CONFINEMENT, component("../escape.json")),
    case("absolute path", "ORT008", CONFINEMENT, component("/escape.json")),
    case("asset reference", "ORT008", NOT_FOUND, component(ASSET)),
    case("component is null", "ORT005", SCHEMA, component(None)),
    case("component is a list", "ORT005", SCHEMA, component([])),
    case("external list", "ORT005", SCHEMA, component("c.json") | {"c.json": []}),
    case("external text that is not JSON", "ORT003", SCHEMA, component("c.json") | {"c.json": "{"}),
    case("component.json is a folder", "ORT003", SCHEMA, component("d") | {"d/component.json/x": ""}),
    case("no variants key", "ORT005", SCHEMA, component({})),
    case("variants is null", "ORT005", SCHEMA, component({"variants": None})),
    case("component_name is null", "ORT005", SCHEMA, component({"component_name": None, "variants": {}})),
    case("component_name differs", OPENS, OPENS, component({"component_name": "other", "variants": {}})),
    case("unknown key in a component", "ORT062", SCHEMA, component({"variants": {}, "x": 1})),
    case("unknown key under a newer minor", OPENS, OPENS, component({"variants": {}, "x": 1}, version="1.1000")),
    *(case(f"component named {name!r}", "ORT008", OPENS, {"manifest.json": {
        "schema_version": "1.0", "components": {name: {"variants": {}}}}})
      for name in ("", "..", "a/b", "/tmp", "sha256:x", 300 * "x", "a\0b", "con")),
    case("component named in Chinese", OPENS, OPENS, {"manifest.json": {
        "schema_version": "1.0", "components": {"模型🙂": {"variants": {}}}}}),
)  # fmt: skip

VARIANT_CASES = (
    case("folder of the variant's name", OPENS, OPENS, package()),
    case("no folder", "ORT063", OPENS, package({}, name="none")),
    case("a file of the variant's name", "ORT063", OPENS, package({}, name="m") | {"m": ""}),
    case("inline payload without a folder", "ORT063", OPENS, package({"executor_info": {"ort": {}}}, name="none")),
    *(case(f"variant named {name!r} is a path out", "ORT008", CONFINEMENT, package({}, name=name))
      for name in ("..", "../x", "/tmp", "v/../v")),
    case("variant without a name", "ORT008", INVALID_ARG, package({}, name="")),
    *(case(f"variant named {name!r}", "ORT008", OPENS, package({}, name=name))
      for name in (".", "a/b", "a\\b", "a:b", "con", "v ", "v\0x")),
    *(case(f"variant named {name!r} beside a variant_directory", "ORT008", OPENS, package(
        {"variant_directory": "v", "executor_info": {"ort": {"model_file": "model.onnx"}}}, name=name))
      for name in ("../a:b", "con", "v\0x", "")),
    case("variant_directory", OPENS, OPENS, package({"variant_directory": "./v/"})),
    case("variant_directory is the package", OPENS, OPENS, package({"variant_directory": "."})),
    case("variant_directory is empty", "ORT011", INVALID_ARG, package({"variant_directory": ""})),
    case("variant_directory does not exist", "ORT010", NOT_FOUND, package({"variant_directory": "x"})),
    case("variant_directory is a file", "ORT010", OPENS, package({"variant_directory": MODEL})),
    case("variant_directory leads out", "ORT008", CONFINEMENT, package({"variant_directory": "../v"})),
    case("variant_directory comes back", "ORT008", CONFINEMENT, package({"variant_directory": "v/../v"})),
    case("three dots are a name", "ORT008", OPENS, package({"variant_directory": "..."}) | {".../x": ""}),
    case("installed layout, path out and back", "ORT008", OPENS,
         package({"variant_directory": "../p.ortpackage/v"}, layout="installed")),
    case("installed layout, absolute component", "ORT008", OPENS,
         component(f"{OUTSIDE}/component.json", layout="installed")),
    *(case(f"{key} is null", "ORT005", SCHEMA, package({key: None}))
      for key in ("variant_directory", "ep", "device", "compatibility_string", "executor_info")),
    case("empty texts", OPENS, OPENS, package({"ep": "", "device": "", "compatibility_string": ""})),
    case("unknown EP and device", OPENS, OPENS, package({"ep": "MyEP", "device": "TPU"})),
    case("additional_metadata is null", OPENS, OPENS, package({"additional_metadata": None})),
    case("unknown key in a variant", "ORT062", SCHEMA, package({"constraints": {}})),
    case("unknown key under a newer minor", OPENS, OPENS, package({"constraints": {}}, version="1.1")),
)  # fmt: skip


def executor(value: Any) -> dict[str, Any]:
    return package({"executor_info": {"other": value}}) | {"v/p.json": "[1]", "v/bad.json": "{"}


def option(key: str, value: str) -> dict[str, Any]:
    return ort({"model_file": "model.onnx", "session_options": {key: value}})


FOLDER_OPTION = "session.model_external_initializers_file_folder_path"

NO_PAYLOADS: tuple[Any, ...] = (None, 1, [])
NO_OPTIONS: tuple[Any, ...] = (None, [], {"a": 1}, {"a": None}, {"a\0": "1"})

EXECUTOR_CASES = (
    case("payload in a file", OPENS, OPENS, executor("p.json")),
    case("payload file is missing", "ORT010", NOT_FOUND, executor("none.json")),
    case("payload file is not JSON", "ORT003", SCHEMA, executor("bad.json")),
    case("payload file leads out", "ORT008", CONFINEMENT, executor("../v/p.json")),
    case("payload file is an asset reference", "ORT008", NOT_FOUND, executor(ASSET)),
    case("payload path is empty", "ORT011", INVALID_ARG, executor("")),
    case("payload path is a folder", "ORT003", SCHEMA, executor(".")),
    *(case(f"payload is {value!r}", "ORT005", SCHEMA, executor(value)) for value in NO_PAYLOADS),
    case("payload file, but no folder", "ORT063", NOT_FOUND, package({"executor_info": {"o": "p.json"}}, name="none")),
    case("ort in a file", OPENS, OPENS, ort("ort.json") | {"v/ort.json": {"model_file": "model.onnx"}}),
    case("ort in a file is a list", "ORT066", FAIL, ort("ort.json") | {"v/ort.json": []}),
    case("no model_file", OPENS, OPENS, ort({"unknown": 1})),
    case("model_file is no text", "ORT066", FAIL, ort({"model_file": None})),
    case("model_file does not exist", "ORT010", OPENS, ort({"model_file": "none.onnx"})),
    case("model_file is a folder", "ORT010", OPENS, ort({"model_file": "."})),
    case("model_file is empty", "ORT011", INVALID_ARG, ort({"model_file": ""})),
    case("model_file leads out", "ORT008", CONFINEMENT, ort({"model_file": "../v/model.onnx"})),
    case("model_file is absolute", "ORT008", CONFINEMENT, ort({"model_file": "/model.onnx"})),
    case("model_file is a NUL", "ORT008", INVALID_ARG, ort({"model_file": "\0"})),
    *(case(f"{what} is {value!r}", "ORT066", FAIL, ort({what: value}))
      for what in ("session_options", "provider_options")
      for value in NO_OPTIONS),
    *(case(f"forbidden {key}", "ORT067", FAIL, option(key, value))
      for key, value in (("session.debug_layout_transformation", "0"),
                         ("session.collect_node_memory_stats_to_file", ""),
                         ("session.enable_profiling", ""), ("session.optimized_model_filepath", "x"))),
    case("allowed ep.context_enable", OPENS, OPENS, option("ep.context_enable", "1")),
    case("empty option key", OPENS, OPENS, option("", "1")),
    case("empty path option", OPENS, OPENS, option(FOLDER_OPTION, "")),
    case("path option", OPENS, OPENS, option(FOLDER_OPTION, ".")),
    case("path option does not exist", "ORT010", OPENS, option(FOLDER_OPTION, "none")),
    *(case(f"{key} leads out", "ORT008", CONFINEMENT, option(key, "../v"))
      for key in (FOLDER_OPTION, "ep.context_file_path", "ep.context_source_model_path")),
    *(case(f"NUL in {key}", "ORT008", OPENS, option(key, "v\0x"))
      for key in (FOLDER_OPTION, "ep.context_file_path", "ep.context_source_model_path")),
    case("an executor's name with a NUL", "ORT066", OPENS, package({"executor_info": {"other\0": {}}})),
    case("ort up to a NUL is ort", "ORT066", CONFINEMENT, package(
        {"executor_info": {"ort\0": {"model_file": "../x"}}})),
    case("of executors that are equal up to a NUL the first counts", "ORT066", OPENS, package(
        {"executor_info": {"ort\0x": {"model_file": "model.onnx"}, "ort": {"model_file": 3}}})),
    case("context path does not exist", OPENS, OPENS, option("ep.context_file_path", "ctx.onnx")),
    case("context path leads out", "ORT008", CONFINEMENT, option("ep.context_file_path", "/x")),
)  # fmt: skip


def asset(reference: str, **manifest: Any) -> dict[str, Any]:
    return ort({"model_file": reference}, **manifest) | {f"{ASSET_FOLDER}/model.onnx": ""}


ASSET_CASES = (
    case("file in an asset", OPENS, OPENS, asset(f"{ASSET}/model.onnx")),
    case("unknown asset", "ORT064", ASSET_MISSING, asset(f"sha256:{OTHER_HEX}/model.onnx")),
    case("the asset itself", "ORT010", OPENS, asset(ASSET)),
    case("file that is not in the asset", "ORT010", OPENS, asset(f"{ASSET}/none.onnx")),
    case("path out of an asset", "ORT008", CONFINEMENT, asset(f"{ASSET}/../model.onnx")),
    case("path out of an asset, installed", "ORT008", CONFINEMENT, asset(f"{ASSET}/../x", layout="installed")),
    case("absolute path in an asset", "ORT008", CONFINEMENT, asset(f"{ASSET}//model.onnx")),
    case("file called like an asset", "ORT065", OPENS, asset("sha256:short")),
    case("asset in capitals", "ORT065", OPENS, asset(f"SHA256:{HEX}/model.onnx")),
    case("asset followed by a blank", "ORT065", OPENS, asset(f"{ASSET} /model.onnx")),
    case("declared asset", OPENS, OPENS, asset(f"{ASSET}/model.onnx", shared_assets={ASSET: "v"})),
    case("a file is no asset", "ORT064", ASSET_MISSING, ort({"model_file": f"sha256:{OTHER_HEX}"}) | {
        f"shared_assets/sha256-{OTHER_HEX}": ""}),
    case("folder of weights in an asset", OPENS, OPENS, option(FOLDER_OPTION, ASSET) | {f"{ASSET_FOLDER}/w": ""}),
)  # fmt: skip

LINK_CASES = (
    case("manifest.json leads out", "ORT009", OPENS, {}, {"manifest.json": f"{OUTSIDE}/manifest.json"}),
    case("component.json leads out", "ORT009", OPENS, component("d"),
         {"d/component.json": f"{OUTSIDE}/component.json"}),
    case("component file leads out", "ORT009", CONFINEMENT, component("c.json"),
         {"c.json": f"{OUTSIDE}/component.json"}),
    case("component folder leads out", "ORT009", CONFINEMENT, component("d"), {"d": f"{OUTSIDE}/component"}),
    case("component folder leads out, installed", "ORT009", OPENS, component("d", layout="installed"),
         {"d": f"{OUTSIDE}/component"}),
    case("variant's folder leads out", "ORT009", CONFINEMENT, package({}, name="w"), {"w": OUTSIDE}),
    case("variant's folder leads elsewhere inside", OPENS, OPENS, package(name="w"), {"w": "v"}),
    case("variant's folder leads nowhere", "ORT009", OPENS, package({}, name="w"), {"w": f"{OUTSIDE}/nothing/x"}),
    case("variant's folder leads to itself", "ORT063", OPENS, package({}, name="w"), {"w": "w"}),
    case("model leads out", "ORT009", CONFINEMENT, ort({"model_file": "m"}), {"v/m": f"{OUTSIDE}/model.onnx"}),
    case("missing file behind a link out", "ORT009", CONFINEMENT, ort({"model_file": "o/none"}), {"v/o": OUTSIDE}),
    case("asset's folder leads out", "ORT009", OPENS, ort({"model_file": f"sha256:{OTHER_HEX}/model.onnx"}),
         {f"shared_assets/sha256-{OTHER_HEX}": OUTSIDE}),
    case("file in an asset leads out", "ORT009", CONFINEMENT, asset(f"{ASSET}/m"),
         {f"{ASSET_FOLDER}/m": f"{OUTSIDE}/model.onnx"}),
    case("file in an asset leads out of the asset", "ORT009", CONFINEMENT, asset(f"{ASSET}/m"),
         {f"{ASSET_FOLDER}/m": "../../v/model.onnx"}),
)  # fmt: skip

ALL_CASES = (
    *JSON_CASES,
    *MANIFEST_CASES,
    *VERSION_CASES,
    *COMPONENT_CASES,
    *VARIANT_CASES,
    *EXECUTOR_CASES,
    *ASSET_CASES,
    *LINK_CASES,
)
