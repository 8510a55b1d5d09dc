"""A package's manifest: written the same each time, read from strangers with care."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from ortpkg.distribution.registry.artifact import (
    ARTIFACT_TYPE,
    CONFIG_MEDIA_TYPE,
    PackageArtifact,
    PackageFile,
    documents_descriptor,
    dump_artifact,
    file_descriptor,
    model_config,
    parse_artifact,
)
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.foundations.errors import ArtifactFormatError

DIGEST = "sha256:" + "1" * 64
MODEL = "models/m/v/model.onnx"


def artifact(**changes: Any) -> PackageArtifact:
    layer = file_descriptor(MODEL, sha256="2" * 64, nbytes=5, variants=("m/v",))
    stated: dict[str, Any] = {
        "name": "digits",
        "version": "2",
        "description": "",
        "package_digest": "3" * 64,
        "config": Descriptor(media_type=CONFIG_MEDIA_TYPE, digest=DIGEST, nbytes=2),
        "documents": documents_descriptor(digest=DIGEST, nbytes=7, tar_digest=DIGEST),
        "files": {MODEL: PackageFile(path=MODEL, layer=layer, variants=("m/v",))},
    }
    return PackageArtifact(**{**stated, **changes})


def test_a_manifest_says_what_was_written() -> None:
    content = dump_artifact(artifact())

    read = parse_artifact(content, registry="oci://h/d")

    assert (read.name, read.version, read.package_digest) == ("digits", "2", "3" * 64)
    assert read.files == artifact().files
    assert read.documents == artifact().documents
    assert read.nbytes == 12
    assert dump_artifact(read) == content


def test_a_file_that_is_there_twice_counts_once() -> None:
    one = artifact().files[MODEL]
    twice = PackageFile(path="models/m/w/model.onnx", layer=one.layer)

    assert artifact(files={one.path: one, twice.path: twice}).nbytes == 12


def test_the_manifest_is_one_of_the_model_specification() -> None:
    document = json.loads(dump_artifact(artifact()))

    assert document["artifactType"] == ARTIFACT_TYPE
    assert document["config"]["mediaType"] == CONFIG_MEDIA_TYPE
    layers = document["layers"]
    assert layers[1]["mediaType"] == "application/vnd.cncf.model.weight.v1.raw"
    assert layers[1]["annotations"]["org.cncf.model.filepath"] == MODEL


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("models/m/v/model.onnx", "weight"),
        ("models/m/v/tokenizer.json", "weight.config"),
        ("README.md", "doc"),
        ("LICENSE", "doc"),
        ("samples/x.npz", "dataset"),
    ],
)
def test_a_file_has_a_kind(path: str, kind: str) -> None:
    layer = file_descriptor(path, sha256="2" * 64, nbytes=1)

    assert layer.media_type == f"application/vnd.cncf.model.{kind}.v1.raw"


# What the model specification demands of a configuration (docs/config.md).
_TEXT = {"type": "string"}
CONFIG_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["descriptor", "config", "modelfs"],
    "properties": {
        "descriptor": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "name": {**_TEXT, "minLength": 1},
                "version": _TEXT,
                "description": _TEXT,
            },
        },
        "config": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"format": _TEXT, "precision": _TEXT},
        },
        "modelfs": {
            "type": "object",
            "additionalProperties": False,
            "required": ["type", "diffIds"],
            "properties": {
                "type": {"enum": ["layers"]},
                "diffIds": {"type": "array", "items": _TEXT, "minItems": 1},
            },
        },
    },
}


@pytest.mark.parametrize("version", ["", "2"])
def test_the_configuration_is_one_of_the_model_specification(version: str) -> None:
    content = model_config(
        name="digits", version=version, description="", precision="", diff_ids=(DIGEST,)
    )

    validator = jsonschema.Draft202012Validator(CONFIG_SCHEMA)
    assert list(validator.iter_errors(json.loads(content))) == []


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(dump_artifact(artifact()))
    change(document)
    return json.dumps(document).encode()


def annotate(key: str, text: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["layers"][1]["annotations"].update({key: text})


PATH = "org.cncf.model.filepath"


@pytest.mark.parametrize(
    ("content", "what", "layer"),
    [
        (b"{", "no JSON", ""),
        (b"[]", "no JSON", ""),
        (b'{"mediaType": "application/vnd.oci.image.index.v1+json"}', "no model package", ""),
        (changed(lambda it: it.update(layers=[])), "layers", ""),
        (changed(lambda it: it.update(layers={})), "layers", ""),
        (changed(lambda it: it.pop("config")), "config", "config"),
        (changed(lambda it: it["config"].update(mediaType="a/b")), "config", DIGEST),
        (changed(lambda it: it["layers"].pop(0)), "ortpkg push", ""),
        (changed(lambda it: it["layers"].append(it["layers"][0])), "second layer", DIGEST),
        (changed(lambda it: it["layers"].append(it["layers"][1])), "so is another", MODEL),
        (changed(lambda it: it["layers"][1].update(size=-1)), "size", "layers/1"),
        (changed(lambda it: it["layers"][1].update(mediaType="a/b")), "type", MODEL),
        (changed(annotate(PATH, "../x")), "which", "../x"),
        (changed(annotate(PATH, "/x")), "which", "/x"),
        (changed(annotate(PATH, "a/nul")), "which", "a/nul"),
        (changed(annotate(PATH, "")), "no path", ""),
        (changed(annotate(PATH, 3)), "text", "layers/1"),
        (changed(annotate("dev.ortpkg.variants", "{")), "JSON list", MODEL),
        (changed(annotate("dev.ortpkg.variants", "[1]")), "JSON list", MODEL),
        (changed(lambda it: it.update(annotations=3)), "annotations", ""),
    ],
)
def test_what_is_no_package_is_refused(content: bytes, what: str, layer: str) -> None:
    with pytest.raises(ArtifactFormatError, match=what) as raised:
        parse_artifact(content, registry="oci://h/d")

    assert raised.value.layer == layer
    assert raised.value.registry == "oci://h/d"


def test_a_manifest_that_no_registry_takes_is_not_made() -> None:
    files = {
        f"{number}": PackageFile(
            path=f"{number}", layer=file_descriptor(f"{number}", sha256="2" * 64, nbytes=1)
        )
        for number in range(12_000)
    }

    with pytest.raises(ArtifactFormatError, match="fewer files"):
        dump_artifact(artifact(files=files))
