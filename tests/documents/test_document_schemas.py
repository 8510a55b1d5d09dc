"""The JSON Schemas, and that the fast validator and the one that lists findings say the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ortpkg.foundations.documents.document_schemas import (
    check_schema,
    is_valid,
    load_schema,
    schemas_directory,
)

KEYWORDS_OF_BOTH = {
    "$defs", "$id", "$ref", "$schema", "additionalProperties", "const", "dependentRequired",
    "description", "enum", "items", "maxItems", "maxProperties", "maximum", "minItems", "minLength",
    "minProperties", "minimum", "pattern", "properties", "required", "title", "type",
}  # fmt: skip
HEX = 64 * "0"
VARIANT = {
    "file": "m.onnx",
    "constraints": {"ep": "X", "device": None},
    "session_options": {"a": "1"},
}
STEP = {"component": "c", "inputs": {}, "outputs": {"y": "z"}}
SAMPLE = {
    "name": "s", "inputs": "x.npz", "expected_outputs": "y.npz", "batch_axis": 0,
    "tolerances": {"y": {"absolute": 1e-3}}, "variants": {"v": {"tolerances": {}}},
    "labels": {"file": "z.npz", "name": "labels"},
    "display": {"output": "y", "as": "class", "classes": ["0"]},
}  # fmt: skip
VALID: dict[str, list[dict[str, Any]]] = {
    "manifest": [
        {"model_name": "m"},
        {"model_name": "m", "component_models": ["a"], "schema_version": "1.1000", "anything": 1},
        {"model_name": "m", "component_models": {"a": {}, "b": {"model_variants": {"v": VARIANT}}}},
        {"model_name": "m", "inputs": [{"name": "x", "type": "tensor(float)", "shape": [1, "n", None]}], "outputs": []},
    ],
    "metadata": [
        {},
        {"component_model_name": "c", "model_variants": {"v": {}, "w": VARIANT, "x": {"constraints": None}}},
    ],
    "component_manifest": [
        {"schema_version": 1, "components": {}},
        {
            "schema_version": "1.0", "package_name": "m", "package_version": "1", "description": "",
            "layout": "installed",
            "components": {"a": "models/a", "b": {"variants": {}}}, "shared_assets": {"sha256:0": "x"},
            "additional_metadata": None, "anything": 1,
        },
    ],
    "component": [
        {"variants": {}},
        {
            "component_name": "c", "additional_metadata": [],
            "variants": {
                "v": {
                    "variant_directory": "v", "ep": "X", "device": "cpu", "compatibility_string": "",
                    "executor_info": {"ort": {"model_file": "m.onnx"}, "other": "other.json"}, "additional_metadata": 1,
                }
            },
        },
    ],
    "executor_info_ort": [
        {},
        {"model_file": "m.onnx", "session_options": {"a": "1"}, "provider_options": {}, "anything": None},
    ],
    "package_facts": [
        {},
        {"inputs": [{"name": "x", "type": "tensor(float)"}], "outputs": [], "metadata": {"a": 1}},
    ],
    "pipeline": [
        {
            "schema_version": "1.0", "inputs": [], "outputs": [],
            "steps": [STEP, {"repeat": {"times": 2, "steps": [STEP], "stop": {"value": "z", "equals": 1}}}],
        }
    ],
    "samples": [{"schema_version": "1.2", "samples": [SAMPLE]}],
    "digests": [
        {
            "schema_version": "1.0", "algorithm": "sha256", "package": HEX,
            "files": {"a": {"digests": [HEX], "nbytes": 0}},
        }
    ],
    "lock": [
        {
            "schema_version": "1.0",
            "packages": {
                "digits": {
                    "wanted": "oci://h/d *", "from": "oci://h/d", "version": "2", "digest": f"sha256:{HEX}",
                    "package_digest": HEX, "variants": {"": ["c/v"]}, "files": {"a": {"sha256": HEX, "nbytes": 0}},
                }
            },
        }
    ],
    "machine_profile": [
        {
            "schema_version": "1.0", "kind": "machine_profile", "name": "n",
            "machine": {"os": "linux", "hardware": [{"type": "cpu"}]},
        },
        {
            "schema_version": "1.0", "kind": "machine_profile", "name": "n", "description": "", "constructed": True,
            "machine": {
                "os": "windows", "os_version": None, "notes": ["x"],
                "hardware": [{
                    "type": "gpu", "name": "", "vendor": "", "vendor_id": 1, "device_id": 0, "is_discrete": None,
                    "memory_nbytes": None, "free_memory_nbytes": 0, "architecture": None, "metadata": {"a": "b"},
                    "source": "s", "fact_sources": {},
                }],
            },
            "ep_devices": [{
                "ep": "e", "ep_vendor": "", "ep_version": "", "backend": "b", "device": None, "ep_metadata": {},
                "ep_options": {"a": "b"},
            }],
            "software": {"onnxruntime": "1"}, "additional_metadata": None,
        },
    ],
    "selection": [
        {
            "schema_version": 1, "component": "c", "policy": "default", "device": None, "ep": None, "backend": None,
            "check_architecture": False, "limits": ["size up to 1 B"], "machine": None, "selected": None,
            "verdicts": [{
                "variant": "v", "ep": None, "backend": None, "device": None, "ep_device": None,
                "code": "EP_NOT_AVAILABLE", "reason": "r", "eligible": False, "compatibility": "EP_NOT_APPLICABLE",
                "rank": None, "decided_by": None, "notes": [],
            }],
            "ties": [], "unpredictable": [], "warnings": [], "hardware": [], "ep_devices": [],
        }
    ],
}  # fmt: skip


def test_the_schemas_lie_in_the_checkout_or_the_installed_package() -> None:
    assert {path.name for path in schemas_directory().iterdir()} == {
        f"{name}.schema.json" for name in VALID
    }


@pytest.mark.parametrize("name", VALID)
def test_schemas_are_valid_and_keep_to_keywords_that_both_validators_implement(name: str) -> None:
    schema = load_schema(name)
    Draft202012Validator.check_schema(schema)
    assert keywords(schema) <= KEYWORDS_OF_BOTH


def keywords(schema: Any) -> set[str]:
    """The keywords of a schema and of those in it.

    What stands under a name of the user's choice is not a keyword.
    """
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for key in ("properties", "$defs"):
        for inner in schema.get(key, {}).values():
            found |= keywords(inner)
    return found | keywords(schema.get("items")) | keywords(schema.get("additionalProperties"))


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in VALID.items() for value in values]
)
def test_accepts_what_the_format_allows(name: str, value: dict[str, Any]) -> None:
    assert check_schema(value, name, document="d") == ()
    assert Draft202012Validator(load_schema(name)).is_valid(value)


ODD_VALUES = st.sampled_from(
    [
        None, True, False, 0, 1, -1, 1.0, 0.5, 10**30, -(10**30), "", "x", "1.0", "1.0\n", "2.0",
        [], ["x"], [1], {}, {"a": 1},
    ]
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) below ``value``."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [place for key, inner in items for place in ((value, key), *places(inner))]


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", VALID)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_both_validators_agree_on_damaged_documents(name: str, data: st.DataObject) -> None:
    value = copied(data.draw(st.sampled_from(VALID[name])))
    for _ in range(data.draw(st.integers(1, 3))):
        if here := places(value):
            container, key = data.draw(st.sampled_from(here))
            if isinstance(container, dict) and data.draw(st.booleans()):
                del container[key]
            else:
                container[key] = copied(data.draw(ODD_VALUES))
    expected = Draft202012Validator(load_schema(name)).is_valid(value)
    assert is_valid(value, name) == expected
    assert bool(check_schema(value, name, document="d")) == (not is_valid(value, name))


def findings(name: str, value: Any) -> list[str]:
    return [str(finding) for finding in check_schema(value, name, document="d")]


def test_lists_everything_with_place_and_remedy_in_document_order() -> None:
    found = findings(
        "metadata",
        {
            "component_model_name": 1,
            "model_variants": {"b": {"file": None, "session_options": {"x": 2}}, "a": []},
            "metadata": "",
        },
    )
    assert found == [
        (
            "d#/component_model_name: is the number 1 (must be the component's name, the same as"
            " its folder) [ORT005]"
        ),
        (
            "d#/model_variants/b/file: is null (must be a path relative to the variant's folder)"
            " [ORT005]"
        ),
        (
            "d#/model_variants/b/session_options/x: is the number 2 "
            '(must be a string; write numbers and booleans as text, e.g. "1") [ORT005]'
        ),
        (
            "d#/model_variants/a: is an empty list "
            "(must be an object; {} is a variant whose folder holds exactly one ONNX file) [ORT005]"
        ),
        "d#/metadata: is an empty text (must be an object with facts about the component) [ORT005]",
    ]


def test_names_all_missing_keys_once() -> None:
    found = findings("samples", {"schema_version": "1.0", "samples": [{}]})
    assert found == [
        (
            "d#/samples/0: lacks 'name' and 'inputs' (must be an object with at least name and inputs)"
            " [ORT005]"
        )
    ]


def test_names_keys_that_need_another() -> None:
    value = {"schema_version": "1.0", "inputs": [], "outputs": [], "steps": [{"component": "c"}]}
    assert "d#/steps/0: lacks 'inputs' and 'outputs'" in findings("pipeline", value)[0]


def test_names_unknown_keys_where_the_format_is_ours() -> None:
    found = findings("samples", {"schema_version": "1.0", "samples": [], "smaples": []})
    expected = (
        "d#/smaples: key 'smaples' is not known (did you mean 'samples'?) (one of"
        " schema_version, samples, additional_metadata) [ORT005]"
    )
    assert found == [expected]


@pytest.mark.parametrize(
    "value",
    [
        {"model_name": "m", "inputs": "\x1b[31m"},
        {"model_name": "m", "component_models": {"\x1b[31m": 1}},
    ],
)
def test_text_of_the_package_is_escaped(value: Any) -> None:
    (found,) = findings("manifest", value)
    assert "\x1b" not in found
    assert r"\x1b[31m" in found


def test_bounds_the_number_of_components() -> None:
    (found,) = findings("manifest", {"model_name": "m", "component_models": ["c"] * 1001})
    assert "d#/component_models: has 1001 entries, more than 1000" in found


def test_a_line_break_after_a_version_or_digest_is_refused_by_both() -> None:
    samples = {"schema_version": "1.0\n", "samples": []}
    digests = copied(VALID["digests"][0]) | {"package": f"{HEX}\n"}
    for name, value in (("samples", samples), ("digests", digests)):
        assert not Draft202012Validator(load_schema(name)).is_valid(value)
        assert not is_valid(value, name)
        assert findings(name, value)
