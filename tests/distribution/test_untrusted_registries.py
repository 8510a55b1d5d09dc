"""Installing from registries that count, break and lie: only what is needed, and nothing wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ortpkg
from ortpkg.distribution.installation import install
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.registry.package_index import resolve_package
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.registry.repository import INDEX_MEDIA_TYPE, MANIFEST_MEDIA_TYPE
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.upgrading import find_outdated
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import ArtifactFormatError, ArtifactNotFoundError, LayerMismatchError
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.references.package_references import OciReference, parse_reference
from tests.distribution.conftest import SAMPLES
from tests.registry.fault_proxy import FaultProxy, fault_proxy
from tests.registry.in_process_registry import InProcessRegistry, running

DIGITS = SAMPLES / "digits.ortpackage"
CPU = InstallWishes(profiles=("plain-server",))
MODEL = "models/classifier/cpu-fp32/model.onnx"


@pytest.fixture
def proxy(store: PackageStore) -> Iterator[FaultProxy]:
    """A way to a registry that has digits, which counts what goes to its clients."""
    registry = InProcessRegistry()
    with running(registry, None):
        place = parse_reference(f"oci://{registry.host}/models/digits")
        assert isinstance(place, OciReference)
        publish(DIGITS, repository_of(place), tags=["2"])
        with fault_proxy(registry.host) as made:
            yield made


def test_only_the_documents_and_the_chosen_variant_move(
    proxy: FaultProxy, store: PackageStore
) -> None:
    report = install(f"oci://{proxy.host}/models/digits:2", wishes=CPU)

    blobs = {path: nbytes for path, nbytes in proxy.sent.items() if "/blobs/" in path and nbytes}
    artifact = report.plan.fetched.artifact
    wanted = [artifact.config, artifact.documents, artifact.files[MODEL].layer]
    wanted.append(artifact.files["README.md"].layer)
    assert {path.rpartition("/")[2]: nbytes for path, nbytes in blobs.items()} == {
        each.digest: each.nbytes for each in wanted
    }
    session = ortpkg.ModelPackage("digits").variant("cpu-fp32").create_session()
    assert session.get_inputs()[0].name == "image"
    (use,) = store.uses("digits")
    assert use.variant == "classifier/cpu-fp32"


def test_a_connection_that_breaks_is_gone_on_with(proxy: FaultProxy, store: PackageStore) -> None:
    model = install(f"oci://{proxy.host}/models/digits:2", wishes=CPU, is_rehearsal=True)
    layer = model.plan.fetched.artifact.files[MODEL].layer
    proxy.fails(method="GET", part=layer.digest, cut_answer=50_000)

    install(f"oci://{proxy.host}/models/digits:2", wishes=CPU)

    assert proxy.asked("GET", layer.digest) == 2
    assert ortpkg.verify(store.open("digits").root).is_intact


def test_what_was_forged_on_the_way_is_refused(proxy: FaultProxy, store: PackageStore) -> None:
    model = install(f"oci://{proxy.host}/models/digits:2", wishes=CPU, is_rehearsal=True)
    layer = model.plan.fetched.artifact.files[MODEL].layer
    proxy.fails(method="GET", part=layer.digest, times=-1, flip=100)

    with pytest.raises(LayerMismatchError) as raised:
        install(f"oci://{proxy.host}/models/digits:2", wishes=CPU)

    assert raised.value.layer == layer.digest
    assert store.packages() == ()
    assert not store.blobs.has(layer.digest)
    assert all(store.blobs.check(digest) for digest in store.blobs.digests())


def republished(layout: OciLayout, change: Callable[[dict[str, Any]], object]) -> str:
    """A manifest that was changed, with the tag ``wrong``; the reference."""
    manifest = json.loads(layout.read_manifest(layout.resolve("2")))
    change(manifest)
    layout.write_manifest(json.dumps(manifest).encode(), MANIFEST_MEDIA_TYPE, tag="wrong")
    return f"{layout.name}:wrong"


def layer_of(manifest: dict[str, Any], path: str) -> dict[str, Any]:
    (found,) = [
        each
        for each in manifest["layers"]
        if each["annotations"]["org.cncf.model.filepath"] == path
    ]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("change", "layer", "message"),
    [
        (
            lambda it: layer_of(it, MODEL).update(digest="sha256:" + "0" * 64),
            MODEL,
            "digests.json records sha256:",
        ),
        (lambda it: layer_of(it, MODEL).update(size=5), MODEL, "and 5 bytes, and digests.json"),
        (lambda it: it["layers"].remove(layer_of(it, MODEL)), MODEL, "there is no layer for"),
        (
            lambda it: layer_of(it, MODEL)["annotations"].update(
                {"org.cncf.model.filepath": "models/more.onnx"}
            ),
            MODEL,
            "there is no layer for",
        ),
        (
            lambda it: layer_of(it, MODEL)["annotations"].update(
                {"org.cncf.model.filepath": "manifest.json"}
            ),
            "manifest.json",
            "is a layer and a document",
        ),
        (
            lambda it: it["annotations"].update({"dev.ortpkg.package-digest": "0" * 64}),
            "",
            "states another digest of the package",
        ),
    ],
)
def test_a_manifest_that_contradicts_the_documents_is_refused(
    layout: OciLayout,
    store: PackageStore,
    change: Callable[[dict[str, Any]], object],
    layer: str,
    message: str,
) -> None:
    reference = republished(layout, change)

    with pytest.raises(ArtifactFormatError, match=message) as raised:
        install(reference, wishes=CPU)

    assert raised.value.layer == layer
    assert store.packages() == ()


def test_a_layer_that_is_gone_is_named(layout: OciLayout, store: PackageStore) -> None:
    manifest = json.loads(layout.read_manifest(layout.resolve("2")))
    digest = layer_of(manifest, MODEL)["digest"]
    (Path(layout.name.partition(":")[2]) / "blobs/sha256" / digest[7:]).unlink()

    with pytest.raises(ArtifactNotFoundError, match=digest):
        install(f"{layout.name}:2", wishes=CPU)

    assert store.packages() == ()


def index_of(layout: OciLayout, *entries: dict[str, Any]) -> Descriptor:
    """An index with the tag ``index``."""
    document = {"schemaVersion": 2, "mediaType": INDEX_MEDIA_TYPE, "manifests": list(entries)}
    content = json.dumps(document).encode()
    return layout.write_manifest(content, INDEX_MEDIA_TYPE, tag="index")


def test_an_index_that_lists_one_package_means_it(layout: OciLayout, store: PackageStore) -> None:
    package = layout.resolve("2")
    other = {**package.to_json(), "artifactType": "application/vnd.other"}
    told = {key: value for key, value in package.to_json().items() if key != "artifactType"}
    index_of(layout, other, told)
    assert resolve_package(layout, "index").digest == package.digest
    index_of(layout, other, package.to_json())

    installed = install(f"{layout.name}:index", wishes=CPU).generation

    assert installed is not None
    assert installed.digest == package.digest
    outdated = find_outdated(installed, store)
    assert outdated is not None
    assert outdated.is_current


def test_an_index_of_none_or_several_packages_or_of_itself_is_refused(
    layout: OciLayout, store: PackageStore
) -> None:
    package = layout.resolve("2").to_json()
    republished(layout, lambda it: it["annotations"].update({"other": "yes"}))
    itself = {**package, "mediaType": INDEX_MEDIA_TYPE, "artifactType": ""}
    for entries, message in (
        ((), "index of 0 manifests, none of which is a package's"),
        ((itself,), "index of 1 manifests, none of which"),
        ((package, layout.resolve("wrong").to_json()), "index of 2 packages: name one"),
        (({"digest": "x"},), "mediaType is not a media type"),
    ):
        index_of(layout, *entries)
        with pytest.raises(ArtifactFormatError, match=message):
            install(f"{layout.name}:index", wishes=CPU)
    assert store.packages() == ()


def test_what_says_that_it_is_a_package_and_is_an_index_is_refused(
    layout: OciLayout, store: PackageStore
) -> None:
    index = index_of(layout)
    lying = {**index.to_json(), "mediaType": MANIFEST_MEDIA_TYPE}
    index_of(layout, lying)

    with pytest.raises(ArtifactFormatError, match="is no model package: its manifest is of type"):
        install(f"{layout.name}:index", wishes=CPU)
    assert store.packages() == ()


def test_a_tag_that_moves_meanwhile_does_no_harm(layout: OciLayout, store: PackageStore) -> None:
    before = layout.resolve("2").digest

    def move(_: object) -> None:
        republished(layout, lambda it: it["annotations"].update({"moved": "yes"}))
        wrong = layout.read_manifest(layout.resolve("wrong"))
        layout.write_manifest(wrong, MANIFEST_MEDIA_TYPE, tag="2")

    report = install(f"{layout.name}:2", wishes=CPU, on_plan=move)

    assert report.generation is not None
    assert report.generation.digest == before != layout.resolve("2").digest
    assert f"sha256:{hash_bytes(report.plan.fetched.source.manifest).sha256}" == before
