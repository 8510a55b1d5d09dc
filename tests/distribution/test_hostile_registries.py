"""``ortpkg install`` from a registry that lies: one error that names the layer, nothing installed.

And nothing left in the store but blobs that verified.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry import document_layer, http_transport
from ortpkg.distribution.registry.http_retries import RetryPolicy
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.registry.repository import INDEX_MEDIA_TYPE, MANIFEST_MEDIA_TYPE
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.package.references.package_references import OciReference, parse_reference
from tests.cli.conftest import Done, RunCommand
from tests.cli.conftest import ortpkg as ortpkg
from tests.distribution.conftest import SAMPLES
from tests.registry.fault_proxy import FaultProxy, fault_proxy
from tests.registry.in_process_registry import InProcessRegistry, running
from tests.registry.servers import PASSWORD, USER, basic_header

_REPOSITORY = "models/digits"
_MODEL = "models/classifier/cpu-fp32/model.onnx"
_PATH = "org.cncf.model.filepath"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> InProcessRegistry:
    """What a registry has that holds digits; not to be changed."""
    registry = InProcessRegistry()
    with running(registry), pytest.MonkeyPatch.context() as patch:
        locks = tmp_path_factory.mktemp("locks")
        patch.setattr("ortpkg.foundations.storage.package_lock.locks_directory", lambda: locks)
        place = parse_reference(f"oci://{registry.host}/{_REPOSITORY}")
        assert isinstance(place, OciReference)
        publish(SAMPLES / "digits.ortpackage", repository_of(place), tags=["2"])
    return registry


class Shop:
    """A registry with digits, to be spoiled, and a proxy before it."""

    def __init__(self, registry: InProcessRegistry, proxy: FaultProxy) -> None:
        self.registry = registry
        self.proxy = proxy
        self.held = registry.repository(_REPOSITORY)
        self.manifest: dict[str, Any] = json.loads(self.held.manifests[self.held.tags["2"]][1])

    @property
    def reference(self) -> str:
        return f"oci://{self.proxy.host}/{_REPOSITORY}:2"

    @property
    def documents(self) -> dict[str, Any]:
        """The layer of documents in the manifest."""
        found = next(each for each in self.manifest["layers"] if each["annotations"][_PATH] == ".")
        assert isinstance(found, dict)
        return found

    @property
    def model(self) -> dict[str, Any]:
        """The layer of the model that is chosen."""
        return self.layer(_MODEL)

    def layer(self, path: str) -> dict[str, Any]:
        found = next(each for each in self.manifest["layers"] if each["annotations"][_PATH] == path)
        assert isinstance(found, dict)
        return found

    def publish(self, content: bytes | None = None, media_type: str = MANIFEST_MEDIA_TYPE) -> str:
        """Moves the tag to a manifest: other bytes, or what ``manifest`` is by now."""
        content = json.dumps(self.manifest).encode() if content is None else content
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.held.manifests[digest] = (media_type, content)
        self.held.tags["2"] = digest
        return digest

    def replace_documents(self, layer: bytes) -> None:
        """Has other bytes as the layer of documents, with the digest and size that they have."""
        digest = self.registry.add_blob(_REPOSITORY, layer)
        self.documents.update(digest=digest, size=len(layer))
        self.publish()


@pytest.fixture
def shop(whole: InProcessRegistry) -> Iterator[Shop]:
    registry = InProcessRegistry(blobs=dict(whole.blobs))
    held, original = registry.repository(_REPOSITORY), whole.repository(_REPOSITORY)
    held.blobs.update(original.blobs)
    held.manifests.update(original.manifests)
    held.tags.update(original.tags)
    with running(registry), fault_proxy(registry.host) as proxy:
        yield Shop(registry, proxy)


def _archive(*entries: tuple[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(target.getvalue(), 1)


def _bomb(shop: Shop) -> str:
    shop.replace_documents(_archive(("manifest.json", bytes(8 << 20))))
    return f"{shop.documents['digest']} of "


def _documents_leave_the_package(shop: Shop) -> str:
    shop.replace_documents(_archive(("../../manifest.json", b"{}")))
    return f"{shop.documents['digest']} of "


def _documents_twice(shop: Shop) -> str:
    shop.replace_documents(_archive(("manifest.json", b"{}"), ("manifest.json", b"{ }")))
    return f"{shop.documents['digest']} of "


def _documents_that_are_huge(shop: Shop) -> str:
    shop.documents.update(size=1 << 40)
    shop.publish()
    return f"{shop.documents['digest']} of "


def _manifest_of_a_gigabyte(shop: Shop) -> str:
    shop.proxy.fails(method="HEAD", part="/manifests/", content_length=1 << 30, times=-1)
    return f"{_REPOSITORY}:2: a manifest of 1073741824 bytes"


def _manifest_that_never_ends(shop: Shop) -> str:
    shop.proxy.fails(method="GET", part="/manifests/", body=bytes(5 << 20), times=-1)
    return "more than 4194304 bytes"


def _million_layers(shop: Shop) -> str:
    shop.publish(b'{"artifactType":"x","layers":[' + b"{}," * (1 << 20) + b"{}]}")
    return "holds more than 2000000 values"


def _hundred_thousand_layers(shop: Shop) -> str:
    shop.manifest["layers"] = [{}] * 300_000
    shop.publish()
    return "layers is not a list of 1 to"


def _manifest_deep(shop: Shop) -> str:
    shop.publish(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    return "a manifest that is no JSON document"


def _other_manifest(shop: Shop) -> str:
    """The tag moved between the look at it and the reading, and the registry gives the new one."""
    shop.manifest["annotations"]["moved"] = "yes"
    body = json.dumps(shop.manifest).encode()
    shop.proxy.fails(method="GET", part="/manifests/sha256", body=body, times=-1)
    return f"{shop.held.tags['2']}"


def _cycle_of_indexes(shop: Shop) -> str:
    inner = {"mediaType": INDEX_MEDIA_TYPE, "digest": f"sha256:{'0' * 64}", "size": 300}
    index = {"schemaVersion": 2, "mediaType": INDEX_MEDIA_TYPE, "manifests": [inner]}
    content = json.dumps(index).encode()
    digest = shop.publish(content, INDEX_MEDIA_TYPE)
    shop.held.manifests[f"sha256:{'0' * 64}"] = (INDEX_MEDIA_TYPE, content)
    assert digest
    return "is an index of 1 manifests, none of which is a package's"


def _unknown_type_of_a_layer(shop: Shop) -> str:
    shop.model.update(mediaType="application/vnd.docker.image.rootfs.diff.tar.gzip")
    shop.publish()
    return f"('{_MODEL}') is of type"


def _unknown_type_of_the_config(shop: Shop) -> str:
    shop.manifest["config"].update(mediaType="application/vnd.oci.image.config.v1+json")
    shop.publish()
    return "config is of type"


def _path_that_leaves(shop: Shop) -> str:
    shop.model["annotations"][_PATH] = "../../../.bashrc"
    shop.publish()
    return "is '../../../.bashrc', which"


def _path_of_another_system(shop: Shop) -> str:
    shop.model["annotations"][_PATH] = "models\\classifier\\aux.onnx"
    shop.publish()
    return "is 'models\\\\classifier\\\\aux.onnx', which"


def _layer_twice(shop: Shop) -> str:
    other = {**shop.layer("README.md")}
    other["annotations"] = {**other["annotations"], _PATH: _MODEL.upper().replace("/", "/")}
    shop.manifest["layers"].append(other)
    shop.publish()
    return f"and so is another ('{_MODEL}')"


def _layer_too_short(shop: Shop) -> str:
    shop.registry.blobs[shop.model["digest"]] = b"short"
    return str(shop.model["digest"])


def _layer_too_long(shop: Shop) -> str:
    shop.registry.blobs[shop.model["digest"]] += b"more"
    return str(shop.model["digest"])


def _layer_with_another_digest(shop: Shop) -> str:
    shop.proxy.fails(method="GET", part=shop.model["digest"], flip=1000, times=-1)
    return str(shop.model["digest"])


def _documents_with_another_digest(shop: Shop) -> str:
    shop.proxy.fails(method="GET", part=shop.documents["digest"], flip=100, times=-1)
    return str(shop.documents["digest"])


def _size_that_lies(shop: Shop) -> str:
    shop.model.update(size=shop.model["size"] + 1)
    shop.publish()
    return f"'{_MODEL}' has sha256:"


def _negative_size(shop: Shop) -> str:
    shop.model.update(size=-1)
    shop.publish()
    return "size is not a number of bytes"


def _layer_that_is_gone(shop: Shop) -> str:
    shop.held.blobs.discard(shop.model["digest"])
    return str(shop.model["digest"])


def _redirect_elsewhere(shop: Shop) -> str:
    """To the same registry by another name, which has something else there."""
    digest = shop.model["digest"]
    wrong = shop.registry.add_blob(_REPOSITORY, bytes(shop.model["size"]))
    url = f"{shop.registry.url}/v2/{_REPOSITORY}/blobs/{wrong}"
    shop.proxy.fails(method="GET", part=digest, status=307, headers={"Location": url}, times=-1)
    return str(digest)


def _drip(shop: Shop) -> str:
    shop.proxy.fails(method="GET", part=shop.model["digest"], drip_s=0.02, times=-1)
    return "are too few"


def _wait_a_day(shop: Shop) -> str:
    headers = {"Retry-After": "86400"}
    shop.proxy.fails(method="GET", part="/blobs/", status=429, headers=headers, times=-1)
    return "asks for fewer requests, and to wait 86400 s"


_LIES: tuple[Callable[[Shop], str], ...] = (
    _bomb,
    _documents_leave_the_package,
    _documents_twice,
    _documents_that_are_huge,
    _manifest_of_a_gigabyte,
    _manifest_that_never_ends,
    _million_layers,
    _hundred_thousand_layers,
    _manifest_deep,
    _other_manifest,
    _cycle_of_indexes,
    _unknown_type_of_a_layer,
    _unknown_type_of_the_config,
    _path_that_leaves,
    _path_of_another_system,
    _layer_twice,
    _layer_too_short,
    _layer_too_long,
    _layer_with_another_digest,
    _documents_with_another_digest,
    _size_that_lies,
    _negative_size,
    _layer_that_is_gone,
    _redirect_elsewhere,
    _drip,
    _wait_a_day,
)


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits, and nobody who waits for a registry that only drips."""
    monkeypatch.setattr(document_layer, "MOST_NBYTES", 1 << 20)
    monkeypatch.setattr(document_layer, "MOST_DOCUMENTS", 10)
    monkeypatch.setattr(http_transport, "_DRIP_S", 0.1)
    policy = RetryPolicy(most_tries=2, first_pause_s=0.01)
    monkeypatch.setattr(http_transport, "RetryPolicy", lambda: policy)


def _install(ortpkg: RunCommand, shop: Shop) -> Done:
    return ortpkg("install", shop.reference, "--profile", "plain-server")


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("lie", _LIES, ids=lambda lie: lie.__name__.strip("_"))
def test_one_error_names_the_layer_and_nothing_is_left(
    shop: Shop, store: PackageStore, ortpkg: RunCommand, lie: Callable[[Shop], str]
) -> None:
    told = lie(shop)

    done = _install(ortpkg, shop)

    assert done.code == 8, done.err
    assert done.err.count("error:") == 1
    assert told in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert done.out == ""
    assert store.packages() == ()
    is_way_broken = lie is _drip  # what came is gone on from
    assert [path for path in _strays(store) if not (is_way_broken and path.endswith(".part"))] == []
    assert ortpkg("gc", "--now").code == 0
    assert list(store.blobs.digests()) == []


def _strays(store: PackageStore) -> list[str]:
    """Everything in the store's folder but its marks and whole blobs."""
    marks = {"store.json", "oci-layout"}
    files = [path for path in store.root.rglob("*") if path.is_file()]
    blobs = store.root / "blobs" / "sha256"
    return [
        path.relative_to(store.root).as_posix()
        for path in files
        if path.name not in marks
        and not (
            path.parent == blobs and hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        )
    ]


def test_a_tag_that_moves_while_it_is_fetched_does_no_harm(
    shop: Shop, store: PackageStore, ortpkg: RunCommand
) -> None:
    before = shop.held.tags["2"]
    resolve = shop.held.tags

    class Moving(dict[str, str]):
        """The tag names something else whenever it is asked for again."""

        def get(self, key: str, default: Any = None) -> Any:
            found = super().get(key, default)
            shop.manifest["annotations"]["moved"] = "yes"
            if key == "2" and found == before:
                shop.publish()
            return found

    shop.held.tags = Moving(resolve)
    done = _install(ortpkg, shop)

    assert done.code == 0, done.err
    assert store.find("digits").digest == before != shop.held.tags["2"]


def test_credentials_stay_with_the_registry_that_they_are_for(
    shop: Shop,
    store: PackageStore,
    ortpkg: RunCommand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop.registry.auth = "basic"
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {shop.proxy.host: {"auth": auth}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    elsewhere = InProcessRegistry()
    with running(elsewhere):
        other = elsewhere.add_blob(_REPOSITORY, bytes(shop.model["size"]))
        url = f"{elsewhere.url}/v2/{_REPOSITORY}/blobs/{other}"
        shop.proxy.fails(
            method="GET", part=shop.model["digest"], status=307, headers={"Location": url}, times=-1
        )
        done = _install(ortpkg, shop)

    assert done.code == 8
    assert shop.model["digest"] in done.err
    assert basic_header() in shop.proxy.with_header("Authorization")
    assert elsewhere.requested("GET", other) > 0
    assert [authorization for _, _, authorization in elsewhere.log if authorization] == []
    assert PASSWORD not in done.err
    assert all(
        PASSWORD.encode() not in path.read_bytes() and auth.encode() not in path.read_bytes()
        for path in store.root.rglob("*")
        if path.is_file()
    )
    assert store.packages() == ()
