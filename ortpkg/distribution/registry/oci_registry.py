"""Repository of an OCI registry, over HTTP.

Source: OCI distribution specification 1.1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO
from urllib.parse import quote

from ortpkg.distribution.registry.blob_download import BlobDownload
from ortpkg.distribution.registry.blob_upload import BlobUpload
from ortpkg.distribution.registry.descriptors import Descriptor, parse_descriptor
from ortpkg.distribution.registry.http_transport import WholeAnswer
from ortpkg.distribution.registry.referrers import (
    MOST_REFERRERS,
    fallback_tag,
    index_content,
    of_type,
    parse_index,
    referrer,
)
from ortpkg.distribution.registry.registry_answers import parse_json_object, refusal
from ortpkg.distribution.registry.registry_client import RegistryClient
from ortpkg.distribution.registry.repository import (
    INDEX_MEDIA_TYPE,
    MOST_MANIFEST_NBYTES,
    Repository,
)
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    ArtifactNotFoundError,
    LayerMismatchError,
    PackageReferenceError,
    RegistryAuthenticationError,
    RegistryError,
    quoted,
)
from ortpkg.foundations.storage.digest_text import is_digest
from ortpkg.package.references.http_addresses import origin, parse_registry_host
from ortpkg.package.references.package_references import is_repository, is_tag

_ACCEPTED = (
    f"application/vnd.oci.image.manifest.v1+json, {INDEX_MEDIA_TYPE},"
    " application/vnd.docker.distribution.manifest.v2+json,"
    " application/vnd.docker.distribution.manifest.list.v2+json, */*;q=0.1"
)
_PAGE_TAGS, _MOST_PAGES, _MOST_TAGS = 1000, 1000, 100_000
_MOST_LINK_CHARACTERS = 16 * 1024
_NEXT = re.compile(r"<([^<>]*)>\s*;[^,]*\brel\s*=\s*\"?next\b", re.IGNORECASE)
#: Statuses of registries that have no referrers API.
_NO_API_STATUSES = frozenset({404, 405, 501})
_MOST_INDEX_TRIES = 5


def open_oci_registry(
    host: str, repository: str, *, is_plain_http: bool | None = None
) -> OciRegistry:
    """Open a repository of a registry with the user's own credentials.

    Args:
        host: ``host[:port]`` of the registry.
        repository: Name of the repository.
        is_plain_http: See :class:`RegistryClient`.

    Raises:
        PackageReferenceError: A name is invalid.
    """
    client = RegistryClient(parse_registry_host(host), is_plain_http=is_plain_http)
    return OciRegistry(client, repository)


class OciRegistry(Repository):
    """One repository of a registry.

    Args:
        client: Client of the registry; repositories may share it, and so its connections and
            tokens.
        repository: Name of the repository; on Docker Hub a name of one word means
            ``library/<name>``.

    Raises:
        PackageReferenceError: The name is invalid.
    """

    def __init__(self, client: RegistryClient, repository: str) -> None:
        if not is_repository(repository):
            raise PackageReferenceError(
                f"{quoted(repository)} is no repository of a registry; write lower-case letters,"
                " digits and single . _ - between them, in parts by /, such as models/digits",
                reference=repository,
            )
        self.client = client
        is_short = client.host.is_docker_hub and "/" not in repository
        self.repository = f"library/{repository}" if is_short else repository
        self._path = f"/v2/{self.repository}/"
        self._pull = (f"repository:{self.repository}:pull",)
        self._push = (f"repository:{self.repository}:pull,push",)
        self._has_no_referrers_api = False

    @property
    def name(self) -> str:
        return f"oci://{self.client.host}/{self.repository}"

    def resolve(self, tag_or_digest: str) -> Descriptor:
        what = self._name_in_messages(tag_or_digest)
        headers = {"Accept": _ACCEPTED}
        path = self._manifest_path(tag_or_digest)
        answer = self.client.exchange("HEAD", path, scopes=self._pull, headers=headers)
        digest, nbytes = answer.header("Docker-Content-Digest"), answer.answer.nbytes
        if answer.status == 200 and digest is not None and nbytes:
            descriptor = self._described(answer, digest, nbytes, what)
        elif answer.status == 404:
            raise refusal(answer.answer, what, answer.body)
        else:  # HEAD is not supported or says too little
            answer = self._manifest(path, what)
            computed = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
            descriptor = self._described(answer, computed, len(answer.body), what)
        if is_digest(tag_or_digest) and descriptor.digest != tag_or_digest:
            raise self._mismatch(what, tag_or_digest, descriptor.digest)
        return descriptor

    def read_manifest(self, descriptor: Descriptor) -> bytes:
        what = self._name_in_messages(descriptor.digest)
        if descriptor.nbytes > MOST_MANIFEST_NBYTES:
            raise ArtifactFormatError(
                f"{what}: a manifest of {descriptor.nbytes} bytes; at most {MOST_MANIFEST_NBYTES}"
                " are read",
                registry=str(self.client.host),
            )
        answer = self._manifest(self._manifest_path(descriptor.digest), what)
        actual = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        if actual != descriptor.digest or len(answer.body) != descriptor.nbytes:
            raise self._mismatch(what, descriptor.digest, actual)
        return answer.body

    def read_blob(
        self, descriptor: Descriptor, *, offset: int = 0
    ) -> AbstractContextManager[Iterator[bytes]]:
        path = f"{self._path}blobs/{descriptor.digest}"
        what = self._name_in_messages(descriptor.digest)
        return BlobDownload(self.client, path, self._pull, descriptor, offset, what).opened()

    def has_blob(self, digest: str) -> bool:
        path = f"{self._path}blobs/{digest}"
        answer = self.client.exchange("HEAD", path, scopes=self._pull)
        if answer.status not in {200, 404}:
            raise refusal(answer.answer, self._name_in_messages(digest), answer.body)
        return answer.status == 200

    def write_blob(
        self,
        descriptor: Descriptor,
        open_content: Callable[[], BinaryIO],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        path, what = f"{self._path}blobs/", self._name_in_messages(descriptor.digest)
        BlobUpload(self.client, path, self._push, descriptor, open_content, progress, what).run()

    def mount_blob(self, digest: str, source: str) -> bool:
        if not is_repository(source) or source == self.repository:
            return False
        scopes = (*self._push, f"repository:{source}:pull")
        path = f"{self._path}blobs/uploads/?mount={digest}&from={quote(source)}"
        try:
            answer = self.client.exchange(
                "POST", path, scopes=scopes, headers={"Content-Length": "0"}
            )
        except RegistryAuthenticationError:
            return False
        if answer.status == 202:  # the registry began an upload instead
            self._cancel(answer)
        return answer.status == 201

    def write_manifest(
        self, content: bytes, media_type: str, *, tag: str | None = None
    ) -> Descriptor:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        written = Descriptor(media_type=media_type, digest=digest, nbytes=len(content))
        has_referrers_api = self._put_manifest(content, written, tag or digest)
        referring = referrer(content, written)
        if referring is not None and not has_referrers_api:
            self._list_by_tag(*referring)
        return written

    def tags(self) -> tuple[str, ...]:
        what = f"the tags of {self.name}"
        tags: set[str] = set()
        url: str | None = f"{self._path}tags/list?n={_PAGE_TAGS}"
        for _ in range(_MOST_PAGES):
            assert url is not None
            answer = self.client.exchange("GET", url, scopes=self._pull)
            if answer.status != 200:
                raise refusal(answer.answer, what, answer.body)
            page = parse_json_object(answer.body, what, str(self.client.host)).get("tags") or []
            if not isinstance(page, list) or not all(
                isinstance(t, str) and is_tag(t) for t in page
            ):
                raise self._wrong(f"{what}: the answer is no list of tags")
            is_new = not tags.issuperset(page)
            tags.update(page)
            url = self._next_page(answer, what)
            if url is None or not is_new:
                return tuple(sorted(tags))
            if len(tags) > _MOST_TAGS:
                break
        raise self._wrong(f"{what}: more than {_MOST_TAGS} tags, or {_MOST_PAGES} pages of them")

    def referrers(self, digest: str, *, artifact_type: str = "") -> tuple[Descriptor, ...]:
        what = self._name_in_messages(digest)
        if not self._has_no_referrers_api:
            manifests = self._referrers_by_api(digest, artifact_type, what)
            if manifests is not None:
                return of_type(manifests, artifact_type)
        return of_type(self._referrers_by_tag(digest), artifact_type)

    def _manifest_path(self, tag_or_digest: str) -> str:
        if not (is_digest(tag_or_digest) or is_tag(tag_or_digest)):
            raise PackageReferenceError(
                f"{quoted(tag_or_digest)} is neither a tag nor a digest (sha256: and 64 lower-case"
                " hex digits)",
                reference=tag_or_digest,
            )
        return f"{self._path}manifests/{tag_or_digest}"

    def _manifest(self, path: str, what: str) -> WholeAnswer:
        headers = {"Accept": _ACCEPTED}
        answer = self.client.exchange(
            "GET",
            path,
            scopes=self._pull,
            headers=headers,
            most_nbytes=MOST_MANIFEST_NBYTES,
        )
        if answer.status != 200:
            raise refusal(answer.answer, what, answer.body)
        return answer

    def _described(self, answer: WholeAnswer, digest: str, nbytes: int, what: str) -> Descriptor:
        media_type = (answer.header("Content-Type") or "").partition(";")[0].strip()
        try:
            descriptor = parse_descriptor(
                {"mediaType": media_type, "digest": digest, "size": nbytes}
            )
        except ValueError as error:
            raise self._wrong(f"{what}: the registry describes it wrongly: {error}") from None
        if nbytes > MOST_MANIFEST_NBYTES:
            raise self._wrong(
                f"{what}: a manifest of {nbytes} bytes; at most {MOST_MANIFEST_NBYTES} are read"
            )
        return descriptor

    def _put_manifest(self, content: bytes, written: Descriptor, reference: str) -> bool:
        """Upload a manifest; return True if the registry maintains the list of referrers itself."""
        what = self._name_in_messages(reference)
        answer = self.client.exchange(
            "PUT",
            self._manifest_path(reference),
            scopes=self._push,
            headers={"Content-Type": written.media_type},
            open_body=lambda: content,
        )
        if answer.status != 201:
            raise refusal(answer.answer, what, answer.body)
        digest = answer.header("Docker-Content-Digest")
        if digest is not None and digest != written.digest:
            raise self._mismatch(what, written.digest, digest)
        return answer.header("OCI-Subject") is not None

    def _next_page(self, answer: WholeAnswer, what: str) -> str | None:
        """Return the address of the next page (RFC 8288) at this registry, or None."""
        text = answer.header("Link") or ""
        if len(text) > _MOST_LINK_CHARACTERS:
            raise self._wrong(f"{what}: the answer has a Link of {len(text)} characters")
        link = _NEXT.search(text)
        if link is None:
            return None
        url = self.client.given_url(answer.answer, link[1], what)
        if origin(url) != origin(self.client.url):
            raise self._wrong(f"{what}: the next page is said to be at another host")
        return url

    def _referrers_by_api(
        self, digest: str, artifact_type: str, what: str
    ) -> list[Descriptor] | None:
        """Return the referrers, or None if the registry has no referrers API."""
        query = f"?artifactType={quote(artifact_type, safe='')}" if artifact_type else ""
        url: str | None = f"{self._path}referrers/{digest}{query}"
        manifests: list[Descriptor] = []
        for _ in range(_MOST_PAGES):
            assert url is not None
            answer = self.client.exchange("GET", url, scopes=self._pull)
            if answer.status in _NO_API_STATUSES:
                self._has_no_referrers_api = True
                return None
            if answer.status != 200:
                raise refusal(answer.answer, what, answer.body)
            document = parse_json_object(answer.body, what, str(self.client.host))
            page = parse_index(document, registry=str(self.client.host), what=what)
            manifests += page
            url = self._next_page(answer, what)
            if url is None or not page:
                return manifests
            if len(manifests) > MOST_REFERRERS:
                break
        raise self._wrong(f"{what}: more than {MOST_REFERRERS} manifests refer to it")

    def _referrers_by_tag(self, digest: str) -> list[Descriptor]:
        what = self._name_in_messages(digest)
        try:
            index = self.resolve(fallback_tag(digest))
        except ArtifactNotFoundError:
            return []
        if index.media_type != INDEX_MEDIA_TYPE:
            raise self._wrong(f"{what}: the tag {fallback_tag(digest)} is no index")
        document = parse_json_object(self.read_manifest(index), what, str(self.client.host))
        return parse_index(document, registry=str(self.client.host), what=what)

    def _list_by_tag(self, subject: str, entry: Descriptor) -> None:
        """Add an entry to the index under the fallback tag.

        Another writer may replace the index at the same time, so the entry is checked and added
        again.
        """
        for _ in range(_MOST_INDEX_TRIES):
            referrers = self._referrers_by_tag(subject)
            if any(referrer.digest == entry.digest for referrer in referrers):
                return
            content = index_content([*referrers, entry])
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            index = Descriptor(media_type=INDEX_MEDIA_TYPE, digest=digest, nbytes=len(content))
            self._put_manifest(content, index, fallback_tag(subject))
        if all(referrer.digest != entry.digest for referrer in self._referrers_by_tag(subject)):
            raise RegistryError(
                f"{self.name}: others change the list of what refers to {subject} again and again;"
                " push again",
                registry=str(self.client.host),
            )

    def _cancel(self, answer: WholeAnswer) -> None:
        """Cancel an upload that is not needed; if that fails, the registry removes it in time."""
        try:
            url = self.client.given_url(answer.answer, answer.header("Location"), self.name)
            self.client.exchange("DELETE", url, scopes=self._push)
        except RegistryError:
            return

    def _name_in_messages(self, tag_or_digest: str) -> str:
        joint = "@" if tag_or_digest.startswith("sha256:") else ":"
        return f"{self.name}{joint}{tag_or_digest}"

    def _wrong(self, message: str) -> ArtifactFormatError:
        return ArtifactFormatError(message, registry=str(self.client.host))

    def _mismatch(self, what: str, expected: str, actual: str) -> LayerMismatchError:
        return LayerMismatchError(
            f"{what}: {self.client.host} sends other bytes than its digest names",
            registry=str(self.client.host),
            layer=expected,
            expected=expected,
            actual=actual,
        )
