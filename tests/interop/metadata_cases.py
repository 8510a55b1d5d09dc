"""What onnxruntime 1.26 and 1.27 do with packages of the metadata generation, in one call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.interop.case import CPU_DEVICE, METADATA_LINES, PREFER_CPU, WITH_AZURE, Case, Refused
from tests.interop.packages import (
    AZURE,
    CPU,
    Content,
    Folder,
    Link,
    Model,
    Tree,
    component_manifest,
    metadata_variant,
)
from tests.interop.protocol import Eps, Stage

_C = "models/c"


_MODEL: dict[str, Content] = {f"{_C}/v/model.onnx": Model(1.0)}
_GOOD: Mapping[str, Any] = {"model_variants": {"v": metadata_variant()}}


def _package(manifest: Any, metadata: Any = _GOOD, **more: Content) -> dict[str, Content]:
    return {"manifest.json": manifest, f"{_C}/metadata.json": metadata, **_MODEL, **more}


def _manifest(**keys: Any) -> dict[str, Any]:
    return {"model_name": "m", "component_models": ["c"]} | keys


def _runs(name: str, says: str, tree: Tree, offset: float = 1.0, eps: Eps = WITH_AZURE) -> Case:
    return Case(
        id=name,
        says=says,
        tree=tree,
        lines=METADATA_LINES,
        component="c",
        eps=eps,
        session=True,
        offset=offset,
    )


def _fails(
    name: str, says: str, tree: Tree, text: str, *, code: int = 1, eps: Eps = WITH_AZURE
) -> Case:
    refused = Refused(text, Stage.SESSION, code)
    return Case(
        id=name,
        says=says,
        tree=tree,
        lines=METADATA_LINES,
        component="c",
        eps=eps,
        session=True,
        refused=refused,
    )


def _variants(*names: str, **variants: Any) -> dict[str, Content]:
    """The variants in order, each with a model of its own, whose offset is its place."""
    all_of_them = dict.fromkeys(names, metadata_variant()) | variants
    models: dict[str, Content] = {
        f"{_C}/{name}/model.onnx": Model(float(offset))
        for offset, name in enumerate(all_of_them, start=1)
    }
    return {
        "manifest.json": _manifest(),
        f"{_C}/metadata.json": {"model_variants": all_of_them},
        **models,
    }


def _one(variant: Any, files: Mapping[str, Content]) -> dict[str, Content]:
    """The one variant ``v``, and these files, relative to the component's directory."""
    tree: dict[str, Content] = {
        "manifest.json": _manifest(),
        f"{_C}/metadata.json": {"model_variants": {"v": variant}},
    }
    return tree | {f"{_C}/{path}": content for path, content in files.items()}


_CONSTRAINTS = {"constraints": {"ep": AZURE}}
_NONE_SELECTED = "No execution providers were provided or selected"
_EXACTLY_ONE = "exactly one component model"
_NO_COMPONENT = "No valid component models were found"
_NO_METADATA = "Missing metadata model variants for component model: c"
_ARRAY = "must be an array of strings"
_NO_FILE = "No ONNX model file found under"
_SEVERAL_FILES = "Multiple ONNX model files found under"
_NO_VARIANT = "No suitable model variant found"

MANIFEST_CASES: tuple[Case, ...] = (
    _runs("A1", "a listed component, a variant for the execution provider", _package(_manifest())),
    _fails(
        "metadata-name-missing",
        "model_name is required",
        _package({"component_models": ["c"]}),
        "'model_name' not found",
    ),
    _fails(
        "metadata-name-number", "and text", _package(_manifest(model_name=1)), "type must be string"
    ),
    _fails(
        "metadata-name-empty",
        "and not empty",
        _package(_manifest(model_name="")),
        "missing or empty",
    ),
    _runs(
        "metadata-version-number",
        "a version of another type is ignored",
        _package(_manifest(model_version=1)),
    ),
    _runs(
        "metadata-unknown-keys", "so is any other key", _package(_manifest(schema_version=[], x=1))
    ),
    *(
        _fails(
            f"metadata-components-{name}",
            "component_models is an array of names",
            _package(_manifest(component_models=value)),
            _ARRAY,
        )
        for name, value in (("object", {"c": {}}), ("null", None), ("text", "c"))
    ),
    _fails(
        "metadata-components-number",
        "of texts",
        _package(_manifest(component_models=[1])),
        "type must be string",
    ),
    *(
        _fails(
            f"metadata-components-{name}",
            "one component exactly, counted before the disk is looked at",
            _package(_manifest(component_models=value)),
            _EXACTLY_ONE,
        )
        for name, value in (("none", []), ("two", ["c", "nowhere"]), ("twice", ["c", "c"]))
    ),
    _fails(
        "metadata-component-missing",
        "a listed directory that is missing is left out",
        _package(_manifest(component_models=["nowhere"])),
        _NO_COMPONENT,
    ),
    _runs(
        "metadata-component-path",
        "a component's name is a path, and nothing keeps it inside",
        _package(_manifest(component_models=["../models/c"])),
    ),
    _fails(
        "metadata-component-generation",
        "a package of the component generation has no model_name",
        {"manifest.json": component_manifest({"c": {"variants": {}}})},
        "'model_name' not found",
    ),
    _fails(
        "metadata-no-manifest",
        "neither manifest.json nor metadata.json",
        {},
        "No manifest.json found",
    ),
)

DISCOVERY_CASES: tuple[Case, ...] = (
    _runs(
        "A5",
        "without a list the directory with metadata.json is the component",
        _package({"model_name": "m"}) | {"models/other": Folder(), "models/file": "x"},
    ),
    _fails(
        "metadata-discovery-nothing",
        "without models there is nothing to find",
        {"manifest.json": {"model_name": "m"}},
        "no discoverable models directory",
    ),
    _fails(
        "metadata-discovery-none",
        "nor in an empty one",
        {"manifest.json": {"model_name": "m"}, "models/c": Folder()},
        "no component model folders with metadata.json",
    ),
    _fails(
        "metadata-discovery-two",
        "one component exactly",
        _package({"model_name": "m"}) | {"models/d/metadata.json": _GOOD},
        _EXACTLY_ONE,
    ),
    _fails(
        "metadata-discovery-not-json",
        "a metadata.json that is no JSON is an error here",
        _package({"model_name": "m"}, "{"),
        "is not valid JSON",
    ),
    *(
        _fails(
            f"metadata-listed-{name}",
            "a listed component's problems are swallowed",
            _package(_manifest(), metadata),
            _NO_METADATA,
        )
        for name, metadata in (
            ("not-json", "{"),
            ("no-variants", {}),
            ("array", {"model_variants": []}),
        )
    ),
    _fails(
        "metadata-listed-empty",
        "no variants, no component",
        _package(_manifest(), {"model_variants": {}}),
        _NO_COMPONENT,
    ),
    _runs(
        "A2",
        "the directory of a component is a package of its own",
        {"metadata.json": _GOOD, "v/model.onnx": Model(1.0)},
    ),
    _runs(
        "metadata-root-mode-wins",
        "also beside a manifest",
        {"manifest.json": "{", "metadata.json": _GOOD, "v/model.onnx": Model(1.0)},
    ),
    _runs(
        "metadata-root-mode-drafts",
        "whatever that says",
        {
            "manifest.json": _manifest(component_models={"c": {}}),
            "metadata.json": _GOOD,
            "v/model.onnx": Model(1.0),
        },
    ),
    _fails(
        "metadata-root-mode-empty",
        "there, no variants are no error",
        {"metadata.json": {"model_variants": {}}},
        _NO_VARIANT,
    ),
)

FILE_CASES: tuple[Case, ...] = (
    _runs(
        "A6",
        "model_file may be a directory with one model",
        _one({"model_file": "d", **_CONSTRAINTS}, {"v/d/any.onnx": Model(1.0)}),
    ),
    _runs(
        "A7",
        "without model_file the one model is found",
        _one(_CONSTRAINTS, {"v/any.ONNX": Model(1.0), "v/text": b"x", "v/d.onnx/x": b"x"}),
    ),
    _fails(
        "A8",
        "of two models none",
        _one(_CONSTRAINTS, {"v/a.onnx": Model(1.0), "v/b.onnx": Model(1.0)}),
        _SEVERAL_FILES,
    ),
    _fails(
        "metadata-file-none",
        "no model is found below",
        _one(_CONSTRAINTS, {"v/d/a.onnx": Model(1.0)}),
        _NO_FILE,
    ),
    _fails(
        "metadata-file-missing",
        "a model_file that is missing",
        _one(metadata_variant(), {"v/other.onnx": Model(1.0)}),
        "file path does not exist",
    ),
    _fails(
        "metadata-file-missing-elsewhere",
        "breaks the package even in a variant for another execution provider",
        _package(
            _manifest(), {"model_variants": {"v": metadata_variant(), "w": metadata_variant(CPU)}}
        ),
        "Variant 'w' file path does not exist",
    ),
    _fails(
        "metadata-directory-missing",
        "a variant without a directory",
        _one(_CONSTRAINTS, {}),
        "filesystem error",
        code=6,
    ),
    _runs(
        "metadata-file-number",
        "a model_file that is no text is none",
        _one({"model_file": 1, **_CONSTRAINTS}, {"v/any.onnx": Model(1.0)}),
    ),
    _runs(
        "metadata-file-empty",
        "an empty one too",
        _one({"model_file": "", **_CONSTRAINTS}, {"v/any.onnx": Model(1.0)}),
    ),
    _runs(
        "metadata-file-draft-key",
        "the drafts' key file is unknown",
        _one({"file": "no.onnx", **_CONSTRAINTS}, {"v/any.onnx": Model(1.0)}),
    ),
    _runs(
        "A11",
        "model_id names the directory, with letters replaced that Windows cannot have",
        _one({"model_id": "phi4-cpu:1", **_CONSTRAINTS}, {"phi4-cpu_1/any.onnx": Model(1.0)}),
    ),
    _runs(
        "metadata-id-all-letters",
        "each of them",
        _one({"model_id": 'a<>:"/\\|?*b', **_CONSTRAINTS}, {"a_________b/any.onnx": Model(1.0)}),
    ),
    _runs(
        "metadata-id-number",
        "a model_id that is no text is none",
        _one({"model_id": 1, **_CONSTRAINTS}, {"v/any.onnx": Model(1.0)}),
    ),
    _runs(
        "metadata-id-escapes",
        "nothing keeps it inside",
        _one({"model_id": "..", **_CONSTRAINTS}, {}) | {"models/any.onnx": Model(1.0)},
    ),
    _runs(
        "metadata-file-escapes",
        "nor a model_file",
        _one({"model_file": "../../../../outside.onnx", **_CONSTRAINTS}, {"v": Folder()})
        | {"../outside.onnx": Model(1.0)},
    ),
    _fails(
        "metadata-file-relative-to-component",
        "a model_file is never relative to the component",
        _one({"model_file": "v/model.onnx", **_CONSTRAINTS}, {"v/model.onnx": Model(1.0)}),
        "file path does not exist",
    ),
    _fails(
        "metadata-file-draft-key-beside-two",
        "so that the key file does not choose among several models",
        _one({"file": "a.onnx", **_CONSTRAINTS}, {"v/a.onnx": Model(1.0), "v/b.onnx": Model(2.0)}),
        _SEVERAL_FILES,
    ),
    *(
        _fails(
            f"metadata-file-ends-with-{name}",
            "a file is no directory",
            _one({"model_file": f"model.onnx{end}", **_CONSTRAINTS}, {"v/model.onnx": Model(1.0)}),
            "file path does not exist",
        )
        for name, end in (("slash", "/"), ("dot", "/."))
    ),
    _fails(
        "metadata-directory-is-file",
        "a file is no directory of a variant",
        _one(_CONSTRAINTS, {"v": Model(1.0)}),
        "filesystem error",
        code=6,
    ),
    *(
        _fails(
            f"metadata-loop-beside-{name}",
            "where the model is looked for, every link is followed, and one in a circle ends it",
            _one(_CONSTRAINTS, {"v/model.onnx": Model(1.0), f"v/{name}": Link(name)}),
            "Too many levels of symbolic links",
            code=6,
        )
        for name in ("loop.onnx", "loop.txt")
    ),
    _runs(
        "metadata-loop-beside-named",
        "where the model is named, nothing is looked for",
        _one(metadata_variant(), {"v/model.onnx": Model(1.0), "v/loop.onnx": Link("loop.onnx")}),
    ),
    _runs(
        "metadata-dangling-beside",
        "a link that leads nowhere is no model",
        _one(_CONSTRAINTS, {"v/model.onnx": Model(1.0), "v/dangling.onnx": Link("nowhere")}),
    ),
    _runs(
        "metadata-file-hidden",
        "a name that is an extension has none",
        _one(_CONSTRAINTS, {"v/model.onnx": Model(1.0), "v/.onnx": Model(2.0)}),
    ),
    _runs(
        "metadata-file-symlink-out",
        "nor a link",
        _one(metadata_variant(), {"v/model.onnx": Link("../../../../outside.onnx")})
        | {"../outside.onnx": Model(1.0)},
    ),
)

SELECT_CASES: tuple[Case, ...] = (
    *(
        _fails(
            f"metadata-select-cpu-{name}",
            "on the CPU alone nothing is selected, not even looked at",
            _package(_manifest()),
            _NONE_SELECTED,
            eps=eps,
        )
        for name, eps in (("default", Eps()), ("device", CPU_DEVICE), ("policy", PREFER_CPU))
    ),
    _runs(
        "metadata-select-first-ep",
        "CPU is passed over when another is there",
        _variants(cpu=metadata_variant(CPU), azure=metadata_variant()),
        2.0,
        eps=Eps(appended=("AZURE",), devices_of=(CPU,)),
    ),
    _runs(
        "metadata-select-named",
        "a named execution provider is better than none",
        _variants(base=metadata_variant(None), named=metadata_variant()),
        2.0,
    ),
    _runs(
        "metadata-select-base",
        "none is enough",
        _variants(cpu=metadata_variant(CPU), base=metadata_variant(None)),
        2.0,
    ),
    _fails(
        "metadata-select-other", "another is not", _variants(cpu=metadata_variant(CPU)), _NO_VARIANT
    ),
    _fails(
        "metadata-select-short-name",
        "nor a short name",
        _variants(v=metadata_variant("AZURE")),
        _NO_VARIANT,
    ),
    _runs(
        "metadata-select-any-device",
        "where an execution provider has no hardware devices, every device matches",
        _variants(v=metadata_variant(device="weird")),
    ),
    _runs(
        "metadata-select-architecture",
        "architecture is not matched",
        _variants(v=metadata_variant(architecture="weird")),
    ),
    _runs(
        "metadata-select-compatibility",
        "an execution provider that rates nothing takes every text",
        _variants(v=metadata_variant(ep_compatibility_info="x")),
    ),
    _runs(
        "metadata-select-tie", "of equals the first by name, here", _variants("z", "a", "m"), 2.0
    ),
    _runs(
        "metadata-constraints-null",
        "constraints that are no object are none",
        _variants(v={"model_file": "model.onnx", "constraints": None}),
    ),
    _runs(
        "metadata-constraints-number",
        "an execution provider that is no text is none",
        _variants(v={"model_file": "model.onnx", "constraints": {"ep": 1}}),
    ),
    _runs(
        "metadata-variant-not-object",
        "a variant that is no object is an empty one",
        _one(1, {"v/any.onnx": Model(1.0)}),
    ),
)

_DEEP = "[" * 300 + "]" * 300


def _text(value: str) -> dict[str, Content]:
    """metadata.json with a value that nobody reads."""
    return _package(
        _manifest(),
        f'{{"unknown": {value}, "model_variants": {json.dumps(_GOOD["model_variants"])}}}',
    )


JSON_CASES: tuple[Case, ...] = (
    _runs("metadata-json-deep", "depth has no limit", _text(_DEEP)),
    _fails(
        "metadata-json-deep-wrong", "and is read", _text(_DEEP.replace("[]", "[,]")), _NO_METADATA
    ),
    _runs(
        "metadata-json-deep-text",
        "texts there may hold anything",
        _text(_DEEP.replace("[]", '["]}\\""]')),
    ),
    _fails(
        "metadata-json-deep-surrogate",
        "but Unicode",
        _text(_DEEP.replace("[]", '["\\ud800"]')),
        _NO_METADATA,
    ),
    _runs("metadata-json-long-number", "numbers may be long", _text("0." + "0" * 5000 + "1")),
    _fails("metadata-json-large-number", "but not too large", _text("1e999"), _NO_METADATA),
    _fails(
        "metadata-json-surrogate-replaced",
        "what a later equal key replaces is read",
        _text('{"k": "\\ud800", "k": 1}'),
        _NO_METADATA,
    ),
    _runs(
        "metadata-json-repeated", "the last of equal keys counts", _text('1, "model_variants": 1')
    ),
    _runs(
        "metadata-json-nul",
        "a NUL ends the document",
        _package(_manifest(), json.dumps(_GOOD) + "\0x"),
    ),
)

METADATA_CASES: tuple[Case, ...] = (
    *MANIFEST_CASES,
    *DISCOVERY_CASES,
    *FILE_CASES,
    *SELECT_CASES,
    *JSON_CASES,
)
