"""An ordinary package with one defect has the finding that is due, there, and no other."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ortpkg.foundations.documents import document_rules
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.package import rules
from ortpkg.package.reader import check_package

ORT = {
    "model_file": "model.onnx",
    "session_options": {"session.intra_op.allow_spinning": "0"},
    "provider_options": {"device_id": "0"},
}
COMPONENT = {
    "manifest.json": {
        "schema_version": "1.0",
        "package_name": "digits",
        "package_version": "1",
        "description": "what it is",
        "components": {"c": "models/c/component.json"},
    },
    "models/c/component.json": {
        "component_name": "c",
        "variants": {
            "v": {"ep": "CPUExecutionProvider", "executor_info": {"ort": ORT}},
            "w": {
                "variant_directory": "shared",
                "ep": "CUDAExecutionProvider",
                "device": "gpu",
                "compatibility_string": "sm_90",
                "executor_info": {"ort": {"model_file": "model.onnx"}},
            },
        },
    },
}
METADATA = {
    "manifest.json": {
        "model_name": "digits",
        "model_version": "1",
        "description": "what it is",
        "component_models": ["c"],
    },
    "models/c/metadata.json": {
        "component_model_name": "c",
        "model_variants": {
            "v": {"constraints": {"ep": "CPUExecutionProvider", "device": "cpu"}, **ORT},
            "w": {
                "model_id": "shared",
                "model_file": "model.onnx",
                "constraints": {
                    "ep": "CUDAExecutionProvider",
                    "device": "gpu",
                    "architecture": "sm_90",
                    "ep_compatibility_info": "sm_90",
                },
            },
        },
    },
}
MANIFEST = "manifest.json"
OF_COMPONENT, OF_METADATA = "models/c/component.json", "models/c/metadata.json"
Due = tuple[Rule, str] | None
Edit = Callable[[Any, str], None]
VALUES: tuple[Any, ...] = (1, True, None, [], {}, "x")

#: What is due for a key that is not there; nothing for the others, which may be left out.
WITHOUT: dict[tuple[str, str], Due] = {
    (MANIFEST, "/schema_version"): (document_rules.DOCUMENT_SHAPE, ""),
    (MANIFEST, "/components"): (document_rules.DOCUMENT_SHAPE, ""),
    (MANIFEST, "/components/c"): (rules.PACKAGE_WITHOUT_COMPONENTS, "/components"),
    (OF_COMPONENT, "/variants"): (document_rules.DOCUMENT_SHAPE, ""),
    (OF_COMPONENT, "/variants/v/executor_info"): (rules.MODEL_NOT_NAMED, "/variants/v"),
    (OF_COMPONENT, "/variants/v/executor_info/ort"): (rules.MODEL_NOT_NAMED, "/variants/v"),
    (OF_COMPONENT, "/variants/v/executor_info/ort/model_file"): (
        rules.MODEL_NOT_NAMED,
        "/variants/v",
    ),
    (OF_COMPONENT, "/variants/w/variant_directory"): (
        rules.VARIANT_DIRECTORY_MISSING,
        "/variants/w",
    ),
    (OF_COMPONENT, "/variants/w/executor_info"): (rules.MODEL_NOT_NAMED, "/variants/w"),
    (OF_COMPONENT, "/variants/w/executor_info/ort"): (rules.MODEL_NOT_NAMED, "/variants/w"),
    (OF_COMPONENT, "/variants/w/executor_info/ort/model_file"): (
        rules.MODEL_NOT_NAMED,
        "/variants/w",
    ),
    (MANIFEST, "/model_name"): (document_rules.DOCUMENT_SHAPE, ""),
    (OF_METADATA, "/model_variants"): (rules.COMPONENT_WITHOUT_VARIANTS, "/model_variants"),
    (OF_METADATA, "/model_variants/w/model_id"): (
        rules.FILE_MISSING,
        "/model_variants/w/model_file",
    ),
}
#: What is due for the key "unknown" with the text "x" in an object; nothing in others, whose keys
#: are anybody's.
UNKNOWN: dict[tuple[str, str], Rule] = {
    (MANIFEST, ""): rules.UNKNOWN_KEY,
    (MANIFEST, "/components"): rules.FILE_MISSING,
    (OF_COMPONENT, ""): rules.UNKNOWN_KEY,
    (OF_COMPONENT, "/variants"): document_rules.DOCUMENT_SHAPE,
    (OF_COMPONENT, "/variants/v"): rules.UNKNOWN_KEY,
    (OF_COMPONENT, "/variants/v/executor_info"): rules.FILE_MISSING,
    (OF_COMPONENT, "/variants/w"): rules.UNKNOWN_KEY,
    (OF_COMPONENT, "/variants/w/executor_info"): rules.FILE_MISSING,
    (OF_METADATA, "/model_variants"): document_rules.DOCUMENT_SHAPE,
}
#: Keys of the metadata generation that may be null.
MAY_BE_NULL = {"constraints", "ep", "device", "architecture", "ep_compatibility_info"}
PATHS = (
    (COMPONENT, MANIFEST, "/components/c"),
    (COMPONENT, OF_COMPONENT, "/variants/w/variant_directory"),
    (COMPONENT, OF_COMPONENT, "/variants/v/executor_info/ort/model_file"),
    (COMPONENT, OF_COMPONENT, "/variants/v/executor_info/other"),
    (METADATA, OF_METADATA, "/model_variants/v/model_file"),
)
NOT_PORTABLE = ("../x", "/x", "C:x", "a\\b", "v/con", "a.", "a\nb", "x" * 256)
NAMES = (
    (COMPONENT, MANIFEST, "/components/c"),
    (COMPONENT, OF_COMPONENT, "/variants/v"),
    (COMPONENT, OF_COMPONENT, "/variants/w"),
    (METADATA, OF_METADATA, "/model_variants/v"),
)
TEXTS: tuple[tuple[dict[str, Any], str, str, str, Rule], ...] = (
    (COMPONENT, MANIFEST, "/schema_version", "2.0", rules.SCHEMA_VERSION),
    (COMPONENT, OF_COMPONENT, "/component_name", "x", rules.COMPONENT_NAME_DIFFERS),
    (COMPONENT, OF_COMPONENT, "/variants/v/ep", "CPUExecutionProvidr", rules.UNKNOWN_EP),
    (COMPONENT, OF_COMPONENT, "/variants/w/device", "tpu", rules.UNKNOWN_DEVICE),
    (METADATA, OF_METADATA, "/component_model_name", "x", rules.COMPONENT_NAME_DIFFERS),
    (METADATA, OF_METADATA, "/model_variants/v/constraints/ep", "CPU", rules.UNKNOWN_EP),
    (METADATA, OF_METADATA, "/model_variants/v/constraints/device", "tpu", rules.UNKNOWN_DEVICE),
)
OPTION = "session.optimized_model_filepath"


class Defect(NamedTuple):
    """One thing wrong in ``document``: what ``edit`` does at ``pointer``, and what is due."""

    package: dict[str, Any]
    document: str
    pointer: str
    edit: Edit
    due: Due


def remove(container: Any, key: str) -> None:
    del container[key]


def put(value: Any) -> Edit:
    def edit(container: Any, key: str) -> None:
        container[int(key) if isinstance(container, list) else key] = copy.deepcopy(value)

    return edit


def rename(name: str) -> Edit:
    def edit(container: Any, key: str) -> None:
        container[name] = container.pop(key)

    return edit


def places(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """(pointer, value) of everything in ``value``."""
    items: Any = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else items:
        yield f"{pointer}/{key}", inner
        yield from places(inner, f"{pointer}/{key}")


def defects_of_keys() -> Iterator[tuple[str, Defect]]:
    for package in (COMPONENT, METADATA):
        for document, body in package.items():
            for pointer, value in [("", body), *places(body)]:
                at = document, pointer
                if pointer and not pointer.endswith("/0"):
                    without = Defect(package, document, pointer, remove, WITHOUT.get(at))
                    yield f"without {document}{pointer}", without
                if isinstance(value, dict):
                    key = f"{pointer}/unknown"
                    rule = UNKNOWN.get(at) if (package, at) != (METADATA, (MANIFEST, "")) else None
                    due = None if rule is None else (rule, key)
                    yield f"key {document}{key}", Defect(package, document, key, put("x"), due)


def defects_of_types() -> Iterator[tuple[str, Defect]]:
    for package in (COMPONENT, METADATA):
        for document, body in package.items():
            for pointer, value in places(body):
                key = pointer.rpartition("/")[2]
                is_payload = "/ort/" in pointer
                due = (
                    rules.EXECUTOR_INFO if is_payload else document_rules.DOCUMENT_SHAPE,
                    pointer,
                )
                for other in VALUES:
                    is_other_form = (
                        (key == "schema_version" and other == 1 and other is not True)
                        or (key == "ort" and isinstance(other, str))
                        or (key == "component_models" and isinstance(other, dict))
                        or (package is METADATA and key in MAY_BE_NULL and other is None)
                    )
                    if type(other) is not type(value) and not is_other_form:
                        name = f"{other!r} at {document}{pointer}"
                        yield name, Defect(package, document, pointer, put(other), due)


def defects_of_texts() -> Iterator[tuple[str, Defect]]:
    for package, document, pointer in PATHS:
        for text in (*NOT_PORTABLE, "none"):
            rule = rules.FILE_MISSING if text == "none" else rules.PATH_NOT_PORTABLE
            defect = Defect(package, document, pointer, put(text), (rule, pointer))
            yield f"path {text[:9]!r} at {document}{pointer}", defect
    for package, document, pointer in NAMES:
        for text in ("con", "a:b", "..", "a ", "x" * 256):
            where = f"{pointer.rpartition('/')[0]}/{text}"
            if where.startswith("/components/"):  # component.json has the name, too
                continue
            due = (rules.PATH_NOT_PORTABLE, where)
            yield (
                f"name {text[:9]!r} at {document}{pointer}",
                Defect(package, document, pointer, rename(text), due),
            )
    for package, document, pointer, text, rule in TEXTS:
        defect = Defect(package, document, pointer, put(text), (rule, pointer))
        yield f"text {text!r} at {document}{pointer}", defect
    folder = "/model_variants/w"
    yield (
        "folder that is not portable",
        Defect(
            METADATA,
            OF_METADATA,
            f"{folder}/model_id",
            put("con"),
            (rules.PATH_NOT_PORTABLE, folder),
        ),
    )
    option = f"/variants/v/executor_info/ort/session_options/{OPTION}"
    yield (
        "option that writes a file",
        Defect(COMPONENT, OF_COMPONENT, option, put("x"), (rules.SESSION_OPTION_FORBIDDEN, option)),
    )


DEFECTS = [*defects_of_keys(), *defects_of_types(), *defects_of_texts()]


def write_package(root: Path, package: dict[str, Any]) -> None:
    for name, body in package.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps(body), encoding="utf-8")
    for folder in ("v", "shared"):
        (root / "models/c" / folder).mkdir()
        (root / "models/c" / folder / "model.onnx").touch()


@pytest.mark.parametrize("package", [COMPONENT, METADATA], ids=["component", "metadata"])
def test_the_ordinary_package_has_no_finding(package: dict[str, Any], tmp_path: Path) -> None:
    write_package(tmp_path, package)
    assert check_package(tmp_path)[1] == ()


@pytest.mark.parametrize("defect", [pytest.param(each, id=name) for name, each in DEFECTS])
def test_one_defect_has_the_finding_that_is_due_and_no_other(
    defect: Defect, tmp_path: Path
) -> None:
    package = copy.deepcopy(defect.package)
    container = package[defect.document]
    *way, key = defect.pointer.split("/")[1:]
    for token in way:
        container = container[token]
    defect.edit(container, key)
    write_package(tmp_path, package)
    due = [] if defect.due is None else [(defect.due[0].id, defect.due[1])]
    assert [(each.rule, each.pointer) for each in check_package(tmp_path)[1]] == due


@pytest.mark.parametrize("package", [COMPONENT, METADATA], ids=["component", "metadata"])
@pytest.mark.parametrize("name", ["models/c/v", "models/c/v/model.onnx", "models/c", MANIFEST])
def test_a_link_that_leads_out_has_the_finding_that_is_due(
    package: dict[str, Any], name: str, tmp_path: Path
) -> None:
    (tmp_path / "p").mkdir()
    write_package(tmp_path / "p", package)
    (tmp_path / "p" / name).rename(tmp_path / "outside")
    try:
        (tmp_path / "p" / name).symlink_to(tmp_path / "outside")
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")
    assert {each.rule for each in check_package(tmp_path / "p")[1]} == {rules.PATH_ESCAPES.id}
