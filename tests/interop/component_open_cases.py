"""Which packages of the component generation onnxruntime 1.28 to 1.32 open or refuse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.interop.case import (
    EXPERIMENTAL_LINES,
    LINES_FROM_1_32,
    LINES_UP_TO_1_31,
    STABLE_LINES,
    Case,
    Refused,
    one_variant,
    variants,
)
from tests.interop.packages import Content, Folder, Link, Model, Tree, component_manifest, inline

_EMPTY: Mapping[str, Any] = {"variants": {}}
_DIGEST = "0123456789abcdef" * 4
_ASSET = f"sha256:{_DIGEST}"


def _manifest(**more: Any) -> Tree:
    return {"manifest.json": component_manifest({"c": _EMPTY}, **more)}


def _version(value: Any) -> Tree:
    return {"manifest.json": {"schema_version": value, "components": {"c": _EMPTY}}}


def _raw(text: str | bytes) -> Tree:
    return {"manifest.json": text}


_PLAIN = json.dumps(component_manifest({"c": _EMPTY}))
_NOT_JSON = "Failed to parse JSON"
_NOT_A_VERSION = "'schema_version' must be"
_NOT_AN_ASSET = "is not a valid sha256"
_DOT_DOT = "'..' segments are not allowed"
_ABSOLUTE = "absolute or drive-rooted path"
_ESCAPES = "escapes package_root"
_LINKED = "Portable path contains a link"
_EMPTY_PATH = "input must not be empty"


def _with_metadata(value: str) -> str:
    return _PLAIN[:-1] + f', "additional_metadata": {value}}}'


JSON_CASES: tuple[Case, ...] = (
    Case(
        id="json-byte-order-mark",
        says="a byte order mark is skipped",
        tree=_raw(b"\xef\xbb\xbf" + _PLAIN.encode()),
    ),
    Case(
        id="json-utf-16",
        says="only UTF-8 is read",
        tree=_raw(_PLAIN.encode("utf-16")),
        refused=Refused(_NOT_JSON),
    ),
    Case(
        id="json-ill-formed-utf-8",
        says="bytes that are not UTF-8 are refused",
        tree=_raw(_with_metadata('"?"').encode().replace(b"?", b"\xff")),
        refused=Refused(_NOT_JSON),
    ),
    Case(
        id="json-comment",
        says="comments are refused",
        tree=_raw(_PLAIN + "// end"),
        refused=Refused(_NOT_JSON),
    ),
    Case(
        id="json-trailing-comma",
        says="trailing commas are refused",
        tree=_raw(_PLAIN[:-1] + ",}"),
        refused=Refused(_NOT_JSON),
    ),
    Case(
        id="json-trailing-garbage",
        says="text after the document is refused",
        tree=_raw(_PLAIN + "{}"),
        refused=Refused(_NOT_JSON),
    ),
    Case(
        id="json-nan",
        says="NaN is not a number",
        tree=_raw(_with_metadata("NaN")),
        refused=Refused(_NOT_JSON),
    ),
    Case(
        id="json-lone-surrogate",
        says="an escape of half a surrogate pair is refused",
        tree=_raw(_with_metadata('"\\ud800"')),
        refused=Refused(_NOT_JSON),
    ),
    Case(
        id="json-number-overflow-1.28",
        says="a number that overflows a double leaks an exception",
        tree=_raw(_with_metadata("1e999")),
        lines=EXPERIMENTAL_LINES,
        refused=Refused("out_of_range", code=6),
    ),
    Case(
        id="json-number-overflow-1.31",
        says="a number that overflows a double is refused",
        tree=_raw(_with_metadata("1e999")),
        lines=STABLE_LINES,
        refused=Refused(_NOT_JSON),
    ),
    Case(
        id="json-empty-file",
        says="an empty file is refused",
        tree=_raw(""),
        refused=Refused(_NOT_JSON),
    ),
    Case(
        id="json-not-an-object",
        says="the manifest must be an object",
        tree=_raw("[]"),
        refused=Refused("expected a JSON object"),
    ),
    Case(
        id="json-repeated-key",
        says="of a repeated key the last value counts",
        tree=_raw('{"schema_version": "7.0", "components": {}, "schema_version": "1.0"}'),
    ),
    Case(
        id="json-large-integer",
        says="an integer beyond 64 bits is a number like any other",
        tree=_raw(_with_metadata("123456789012345678901234567890")),
    ),
)

VERSION_CASES: tuple[Case, ...] = (
    Case(
        id="C1",
        says="the integer 1 means 1.0; a variant may be empty",
        tree={"manifest.json": {"schema_version": 1, "components": {"c": {"variants": {"v": {}}}}}},
    ),
    Case(id="C18-string", says='"1.0" is the version 1.0', tree=_version("1.0")),
    Case(id="version-major-alone", says='"1" means 1.0', tree=_version("1")),
    Case(
        id="version-leading-zeros",
        says="leading zeros are digits like others",
        tree=_version("01.00"),
    ),
    Case(
        id="C19",
        says="a minor newer than any known switches unknown-field errors off",
        tree={
            "manifest.json": {
                "schema_version": "1.7",
                "x": 1,
                "components": {"c": {"variants": {"v": {"y": 2}}, "z": 3}},
            }
        },
    ),
    Case(id="version-1.1000", says="any newer minor does", tree=_version("1.1000")),
    Case(
        id="C17",
        says="another major is not supported",
        tree=_version(99),
        refused=Refused("major 99 is not supported"),
    ),
    Case(
        id="C20",
        says='"2.0" is not supported',
        tree=_version("2.0"),
        refused=Refused("major 2 is not supported"),
    ),
    Case(
        id="version-0",
        says="0 is not supported",
        tree=_version("0.9"),
        refused=Refused("major 0 is not supported"),
    ),
    Case(
        id="version-negative",
        says="-1 is not supported",
        tree=_version(-1),
        refused=Refused("major -1 is not supported"),
    ),
    *(
        Case(
            id=f"version-text-{text!r}" if text != "1.x" else "C21",
            says="both parts must be digits",
            tree=_version(text),
            refused=Refused(_NOT_A_VERSION),
        )
        for text in (
            "1.x",
            "1.",
            ".1",
            "1.0.0",
            " 1.0",
            "+1.0",
            "-1.0",
            "",
            "99999999999999999999.0",
        )
    ),
    *(
        Case(
            id=f"version-type-{json.dumps(value)}",
            says="the version is text or an integer",
            tree=_version(value),
            refused=Refused(_NOT_A_VERSION),
        )
        for value in (1.0, True, None, [1])
    ),
    Case(
        id="version-missing",
        says="the version is required",
        tree={"manifest.json": {"components": {}}},
        refused=Refused("missing required 'schema_version'"),
    ),
)

MANIFEST_CASES: tuple[Case, ...] = (
    Case(
        id="C16",
        says="a package needs a manifest.json",
        tree={},
        refused=Refused("Cannot open file"),
    ),
    Case(
        id="manifest-no-components",
        says="components may be empty",
        tree={"manifest.json": component_manifest({})},
    ),
    Case(
        id="manifest-components-missing",
        says="components is required",
        tree={"manifest.json": {"schema_version": "1.0"}},
        refused=Refused("missing required 'components'"),
    ),
    Case(
        id="manifest-components-array",
        says="components is an object",
        tree={"manifest.json": {"schema_version": "1.0", "components": ["c"]}},
        refused=Refused("'components' must be an object"),
    ),
    Case(
        id="manifest-component-number",
        says="a component is text or an object",
        tree={"manifest.json": component_manifest({"c": 1})},
        refused=Refused("component 'c': value must be"),
    ),
    Case(
        id="manifest-all-texts",
        says="name, version and description are texts",
        tree=_manifest(
            package_name="p", package_version="1", description="d", additional_metadata=[1, None]
        ),
    ),
    *(
        Case(
            id=f"manifest-{key}-number",
            says=f"{key} is text",
            tree=_manifest(**{key: 1}),
            refused=Refused(f"'{key}' must be a string"),
        )
        for key in ("package_name", "package_version", "description")
    ),
    *(
        Case(id=f"layout-{text}", says="a layout that there is", tree=_manifest(layout=text))
        for text in ("portable", "installed")
    ),
    *(
        Case(
            id=f"layout-{json.dumps(value)}",
            says="no layout that there is",
            tree=_manifest(layout=value),
            refused=Refused("'layout' must be"),
        )
        for value in ("Portable", "weird", "", None)
    ),
    Case(
        id="unknown-in-manifest",
        says="an unknown key of the manifest is refused",
        tree=_manifest(model_name="m"),
        refused=Refused("unknown field 'model_name'"),
    ),
    Case(
        id="unknown-in-component",
        says="an unknown key of a component is refused",
        tree={"manifest.json": component_manifest({"c": {"variants": {}, "model_variants": {}}})},
        refused=Refused("unknown field 'model_variants'"),
    ),
    Case(
        id="C12",
        says="an unknown key of a variant is refused",
        tree=one_variant(constraints={}),
        refused=Refused("unknown field 'constraints'"),
    ),
    Case(
        id="C22",
        says="the key of a shared asset is sha256: and 64 hexadecimal digits",
        tree=_manifest(shared_assets={"sha256:notenough": "a"}),
        refused=Refused(_NOT_AN_ASSET),
    ),
    Case(
        id="asset-key-upper-case",
        says="in lower case",
        tree=_manifest(shared_assets={_ASSET.upper().replace("SHA256", "sha256"): "a"}),
        refused=Refused(_NOT_AN_ASSET),
    ),
    Case(
        id="asset-override-missing",
        says="an override need not exist",
        tree=_manifest(shared_assets={_ASSET: "nowhere"}),
    ),
    Case(
        id="asset-override-escapes",
        says="but must stay inside",
        tree=_manifest(shared_assets={_ASSET: "../a"}),
        lines=LINES_UP_TO_1_31,
        refused=Refused(_DOT_DOT),
    ),
    Case(
        id="asset-override-escapes-1.32",
        says="and may not be the package itself",
        tree=_manifest(shared_assets={_ASSET: "."}),
        lines=LINES_FROM_1_32,
        refused=Refused(_ESCAPES),
    ),
    Case(
        id="asset-override-through-link",
        says="links on the way to it are followed",
        tree={**_manifest(shared_assets={_ASSET: "in/a"}), "d/a": Folder(), "in": Link("d")},
        lines=LINES_UP_TO_1_31,
    ),
    Case(
        id="asset-override-through-link-1.32",
        says="no link may be on the way to it",
        tree={**_manifest(shared_assets={_ASSET: "in/a"}), "d/a": Folder(), "in": Link("d")},
        lines=LINES_FROM_1_32,
        refused=Refused(_LINKED),
    ),
    Case(
        id="asset-override-through-link-installed",
        says="but in the layout installed",
        tree={
            **_manifest(shared_assets={_ASSET: "in/a"}, layout="installed"),
            "d/a": Folder(),
            "in": Link("d"),
        },
    ),
    *(
        Case(
            id=f"asset-folder-{name}-1.32",
            says="a link with the name of an asset's folder is refused, whatever it leads to",
            tree={
                **_manifest(),
                f"shared_assets/sha256-{_DIGEST}": Link(target),
                "d/f": "anything",
            },
            lines=LINES_FROM_1_32,
            refused=Refused(_LINKED),
        )
        for name, target in (("linked", "../d"), ("linked-to-file", "../d/f"), ("dangling", "../n"))
    ),
    Case(
        id="asset-folder-linked-installed",
        says="in the layout installed it is followed",
        tree={
            **_manifest(layout="installed"),
            f"shared_assets/sha256-{_DIGEST}": Link("../d"),
            "d/f": "anything",
        },
    ),
    Case(
        id="asset-folders-linked-1.32",
        says="shared_assets itself is no link either, even with no asset in it",
        tree={**_manifest(), "shared_assets": Link("d"), "d": Folder()},
        lines=LINES_FROM_1_32,
        refused=Refused(_LINKED),
    ),
    Case(
        id="other-link-beside-assets",
        says="a link in shared_assets that has another name plays no part",
        tree={**_manifest(), "shared_assets/other": Link("../d"), "d": Folder()},
    ),
    Case(
        id="asset-not-hashed",
        says="the content of an asset is not checked",
        tree={**_manifest(), f"shared_assets/sha256-{_DIGEST}/f": "anything"},
    ),
    Case(
        id="manifest-symlink-out",
        says="manifest.json may be a link to anywhere",
        tree={
            "../outside.json": component_manifest({"c": _EMPTY}),
            "manifest.json": Link("../outside.json"),
        },
    ),
)

COMPONENT_CASES: tuple[Case, ...] = (
    Case(
        id="C3",
        says="a component may be a JSON file of any name",
        tree={
            "manifest.json": component_manifest({"c": "components/decoder.json"}),
            "components/decoder.json": _EMPTY,
        },
    ),
    Case(
        id="C4",
        says="or a directory with component.json",
        tree={
            "manifest.json": component_manifest({"c": "decoder"}),
            "decoder/component.json": _EMPTY,
        },
    ),
    Case(
        id="component-directory-without-document",
        says="without it, it is refused",
        tree={"manifest.json": component_manifest({"c": "decoder"}), "decoder": Folder()},
        refused=Refused("directory has no 'component.json'"),
    ),
    Case(
        id="component-missing",
        says="what a component names must exist",
        tree={"manifest.json": component_manifest({"c": "decoder.json"})},
        refused=Refused("decoder.json' does not exist"),
    ),
    Case(
        id="component-is-the-root",
        says='"." is the root, whose component.json is read',
        tree={"manifest.json": component_manifest({"c": "."}), "component.json": _EMPTY},
    ),
    Case(
        id="component-trailing-slash",
        says="a trailing slash and a leading ./ are fine",
        tree={
            "manifest.json": component_manifest({"c": "./decoder/"}),
            "decoder/component.json": _EMPTY,
        },
    ),
    Case(
        id="C7",
        says="a component outside of a portable package is refused",
        tree={
            "manifest.json": component_manifest({"c": "../escape.json"}),
            "../escape.json": _EMPTY,
        },
        refused=Refused(_DOT_DOT),
    ),
    Case(
        id="component-dot-dot-inside",
        says="also where .. would stay inside",
        tree={
            "manifest.json": component_manifest({"c": "a/../c.json"}),
            "a": Folder(),
            "c.json": _EMPTY,
        },
        refused=Refused(_DOT_DOT),
    ),
    Case(
        id="component-absolute",
        posix_names=True,
        says="an absolute path is refused",
        tree={"manifest.json": component_manifest({"c": "/nowhere/c.json"})},
        refused=Refused(_ABSOLUTE),
    ),
    Case(
        id="component-drive",
        posix_names=True,
        says="a Windows drive is part of a name where there are no drives",
        tree={"manifest.json": component_manifest({"c": "C:c.json"}), "C:c.json": _EMPTY},
    ),
    Case(
        id="component-drive-folder",
        posix_names=True,
        says="also before a slash",
        tree={"manifest.json": component_manifest({"c": "C:/c.json"}), "C:/c.json": _EMPTY},
    ),
    Case(
        id="component-backslash",
        posix_names=True,
        says="and a backslash is a letter of a name there",
        tree={"manifest.json": component_manifest({"c": "a\\..\\b.json"}), "a\\..\\b.json": _EMPTY},
    ),
    Case(
        id="component-empty-path",
        says="an empty path is refused",
        tree={"manifest.json": component_manifest({"c": ""})},
        refused=Refused(_EMPTY_PATH),
    ),
    Case(
        id="component-installed-layout-escapes",
        says="the installed layout may leave the package",
        tree={
            "manifest.json": component_manifest({"c": "../beside.json"}, layout="installed"),
            "../beside.json": _EMPTY,
        },
    ),
    Case(
        id="component-symlink-inside",
        says="a link inside the package is fine",
        tree={
            "manifest.json": component_manifest({"c": "a.json"}),
            "b.json": _EMPTY,
            "a.json": Link("b.json"),
        },
    ),
    Case(
        id="component-symlink-out",
        says="a link out of it is refused",
        tree={
            "manifest.json": component_manifest({"c": "a.json"}),
            "../beside.json": _EMPTY,
            "a.json": Link("../beside.json"),
        },
        refused=Refused(_ESCAPES),
    ),
    Case(
        id="component-document-symlink-out",
        says="but component.json in a directory may be a link to anywhere",
        tree={
            "manifest.json": component_manifest({"c": "d"}),
            "../beside.json": _EMPTY,
            "d/component.json": Link("../../beside.json"),
        },
    ),
    Case(
        id="component-name-ignored",
        says="component_name may differ",
        tree={
            "manifest.json": component_manifest({"c": {"component_name": "other", "variants": {}}})
        },
    ),
    Case(
        id="component-name-number",
        says="but is text",
        tree={"manifest.json": component_manifest({"c": {"component_name": 1, "variants": {}}})},
        refused=Refused("component_name must be a string"),
    ),
    Case(
        id="component-variants-missing",
        says="variants is required",
        tree={"manifest.json": component_manifest({"c": {}})},
        refused=Refused("missing required 'variants'"),
    ),
    Case(
        id="component-variants-array",
        says="and an object",
        tree={"manifest.json": component_manifest({"c": {"variants": []}})},
        refused=Refused("'variants' must be an object"),
    ),
    *(
        Case(
            id=f"component-name-{name!r}",
            posix_names=True,
            says="component names have no rule",
            tree={"manifest.json": component_manifest({name: _EMPTY})},
        )
        for name in ("", "..", "a/b", "/tmp", "sha256:x", "n" * 300, "模型")
    ),
)

VARIANT_CASES: tuple[Case, ...] = (
    Case(
        id="C2",
        says="every key that there is",
        tree={
            "manifest.json": component_manifest(
                {
                    "c": {
                        "component_name": "c",
                        "additional_metadata": {"a": 1},
                        "variants": {
                            "cuda": {
                                "variant_directory": "decoder/cuda_fp16",
                                "ep": "CUDAExecutionProvider",
                                "device": "gpu",
                                "compatibility_string": "sm_90",
                                "executor_info": {"other": {"any": [1]}},
                                "additional_metadata": "b",
                            }
                        },
                    }
                },
                additional_metadata=[],
            ),
            "decoder/cuda_fp16": Folder(),
        },
    ),
    Case(
        id="C5",
        says="a payload may be inline or a file in the variant's directory",
        tree={
            "manifest.json": inline({"v": {"executor_info": {"ort": "ort.json", "other": {}}}}),
            "v/ort.json": {"model_file": "model.onnx"},
        },
    ),
    Case(
        id="C6",
        says="an inline payload needs no directory",
        tree=one_variant(executor_info={"ort": {"model_file": "model.onnx"}}),
    ),
    Case(
        id="variant-directory-missing",
        says="a variant_directory that is given must exist",
        tree=one_variant(variant_directory="nowhere"),
        refused=Refused("nowhere' does not exist"),
    ),
    Case(
        id="variant-directory-is-file",
        says="it may be a file",
        tree={**one_variant(variant_directory="f"), "f": "text"},
    ),
    Case(
        id="variant-directory-escapes",
        says="it stays inside",
        tree={**one_variant(variant_directory="../v"), "../v": Folder()},
        refused=Refused(_DOT_DOT),
    ),
    Case(
        id="variant-directory-symlink-out",
        says="links included",
        tree={
            **one_variant(variant_directory="v"),
            "../outside": Folder(),
            "v": Link("../outside"),
        },
        refused=Refused(_ESCAPES),
    ),
    *(
        Case(
            id=f"variant-name-{name!r}-is-no-path",
            posix_names=True,
            says="without variant_directory the name is the path",
            tree=variants({name: {}}),
            refused=Refused(text),
        )
        for name, text in (
            ("", _EMPTY_PATH),
            ("..", _DOT_DOT),
            ("../x", _DOT_DOT),
            ("/tmp", _ABSOLUTE),
        )
    ),
    Case(
        id="variant-name-is-no-path-with-directory",
        says="with it any name will do",
        tree={**variants({"../x": {"variant_directory": "d"}}), "d": Folder()},
    ),
    *(
        Case(
            id=f"variant-name-{name!r}",
            posix_names=True,
            says="names have no other rule",
            tree=variants({name: {}}),
        )
        for name in (".", "a/b", "con", "v ", "模型")
    ),
    *(
        Case(
            id=f"variant-{key}-null",
            says="null is no text",
            tree=one_variant(**{key: None}),
            refused=Refused(
                f"{key} must be a string"
                if key == "variant_directory"
                else f"'{key}' must be a string"
            ),
        )
        for key in ("variant_directory", "ep", "device", "compatibility_string")
    ),
    Case(
        id="variant-null",
        says="a variant is an object",
        tree=variants({"v": None}),
        refused=Refused("variant 'v': expected a JSON object"),
    ),
    Case(
        id="variant-device-unknown",
        says="any device text opens",
        tree=one_variant(ep="CPUExecutionProvider", device="tpu"),
    ),
)

EXECUTOR_CASES: tuple[Case, ...] = (
    Case(
        id="executor-info-missing-file",
        says="an external payload must exist, whoever it is for",
        tree={**one_variant(executor_info={"other": "other.json"}), "v": Folder()},
        refused=Refused("other.json' does not exist"),
    ),
    Case(
        id="executor-info-not-json",
        says="and be JSON",
        tree={**one_variant(executor_info={"other": "other.json"}), "v/other.json": "{"},
        refused=Refused("Failed to parse executor_info JSON"),
    ),
    Case(
        id="executor-info-any-json",
        says="of any type, but for onnxruntime's own",
        tree={**one_variant(executor_info={"other": "other.json"}), "v/other.json": "[1]"},
    ),
    Case(
        id="executor-info-without-directory",
        says="without a variant directory there is no external payload",
        tree=one_variant(executor_info={"other": "other.json"}),
        refused=Refused("no resolved variant_directory"),
    ),
    Case(
        id="executor-info-escapes",
        says="an external payload stays inside",
        tree={**one_variant(executor_info={"other": "../x.json"}), "v": Folder(), "x.json": "{}"},
        refused=Refused(_DOT_DOT),
    ),
    Case(
        id="executor-info-number",
        says="a payload is text or an object",
        tree=one_variant(executor_info={"other": 1}),
        refused=Refused("executor_info['other'] must be"),
    ),
    Case(
        id="ort-unknown-key",
        says="unknown keys of onnxruntime's payload pass",
        tree=one_variant(executor_info={"ort": {"model_file": "m.onnx", "unknown": 1}}),
    ),
    Case(
        id="ort-model-file-missing-key",
        says="model_file may be left out until a session is made",
        tree=one_variant(executor_info={"ort": {}}),
    ),
    Case(
        id="ort-not-an-object",
        says="onnxruntime's payload is an object",
        tree={**one_variant(executor_info={"ort": "ort.json"}), "v/ort.json": "[]"},
        refused=Refused("must be a JSON object"),
    ),
    Case(
        id="ort-model-file-number",
        says="model_file is text",
        tree=one_variant(executor_info={"ort": {"model_file": 1}}),
        refused=Refused("model_file must be a string"),
    ),
    Case(
        id="ort-model-file-empty",
        says="and not empty",
        tree={**one_variant(executor_info={"ort": {"model_file": ""}}), "v": Folder()},
        refused=Refused(_EMPTY_PATH),
    ),
    Case(
        id="ort-model-file-escapes",
        says="it stays inside, also in variants that nobody selects",
        tree={**one_variant(executor_info={"ort": {"model_file": "../../m.onnx"}}), "v": Folder()},
        refused=Refused(_DOT_DOT),
    ),
    Case(
        id="ort-model-file-symlink-out",
        says="links included",
        tree={
            **one_variant(executor_info={"ort": {"model_file": "m.onnx"}}),
            "../outside.onnx": Model(1.0),
            "v/m.onnx": Link("../../outside.onnx"),
        },
        refused=Refused(_ESCAPES),
    ),
    *(
        Case(
            id=f"ort-{key}-{kind}",
            says="options are an object of texts",
            tree=one_variant(executor_info={"ort": {"model_file": "m.onnx", key: value}}),
            refused=Refused(f"'{key}' {text}"),
        )
        for key in ("session_options", "provider_options")
        for kind, value, text in (
            ("array", [], "must be a JSON object"),
            ("number", {"k": 1}, "entries must be strings"),
        )
    ),
    *(
        Case(
            id=f"ort-{key}-escapes",
            says="the two options that are paths stay inside",
            tree=one_variant(
                executor_info={"ort": {"model_file": "m.onnx", "session_options": {key: "../x"}}}
            ),
            refused=Refused(_DOT_DOT),
        )
        for key in ("session.model_external_initializers_file_folder_path", "ep.context_file_path")
    ),
    *(
        Case(
            id=f"ort-{key}-1.28",
            says="options that write files are let through",
            tree=one_variant(executor_info={"ort": {"session_options": {key: "x"}}}),
            lines=EXPERIMENTAL_LINES,
        )
        for key in ("session.enable_profiling", "session.optimized_model_filepath")
    ),
    *(
        Case(
            id=f"ort-{key}-1.31",
            says="options that write files are refused, whatever their value",
            tree=one_variant(executor_info={"ort": {"session_options": {key: ""}}}),
            lines=STABLE_LINES,
            refused=Refused("cannot be set in model package session options"),
        )
        for key in (
            "session.debug_layout_transformation",
            "session.collect_node_memory_stats_to_file",
            "session.enable_profiling",
            "session.optimized_model_filepath",
        )
    ),
    Case(
        id="ort-context-enable",
        says="ep.context_enable is not one of them",
        tree=one_variant(executor_info={"ort": {"session_options": {"ep.context_enable": "1"}}}),
    ),
)

METADATA_PACKAGE: dict[str, Content] = {
    "manifest.json": {"model_name": "m", "component_models": ["c"]},
    "models/c/metadata.json": {"model_variants": {}},
}

OPEN_CASES: tuple[Case, ...] = (
    *JSON_CASES,
    *VERSION_CASES,
    *MANIFEST_CASES,
    *COMPONENT_CASES,
    *VARIANT_CASES,
    *EXECUTOR_CASES,
    Case(
        id="metadata-generation",
        says="a package of the metadata generation has no schema_version",
        tree=METADATA_PACKAGE,
        refused=Refused("missing required 'schema_version'"),
    ),
)
