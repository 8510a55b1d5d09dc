"""Files in buckets of S3, Google Cloud Storage and Azure, read with the library obstore.

Credentials, region and endpoint come from the vendors' variables (``AWS_ACCESS_KEY_ID``,
``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS``, ``AZURE_STORAGE_ACCOUNT_NAME``, ...).
Without any, the library would ask the cloud's metadata server over the network; here it does so
only if ``ORTPKG_MACHINE_CREDENTIALS`` asks for it. Nothing is written to the disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from ortpkg.distribution.registry.remote_file import RemoteFile
from ortpkg.foundations.errors import (
    ArtifactNotFoundError,
    MissingExtraError,
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnreachableError,
    quoted,
)
from ortpkg.foundations.host.directories import below_home
from ortpkg.foundations.variables import flag_variable
from ortpkg.foundations.version import __version__
from ortpkg.package.references.http_addresses import is_loopback
from ortpkg.package.references.url_references import UrlReference

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

#: Size of one request; the library repeats a request that breaks off.
_PIECE_NBYTES = 8 * 1024 * 1024
_TIMEOUT = "120s"
#: Set to ask the metadata server of the cloud machine for credentials.
_MACHINE_VARIABLE = "ORTPKG_MACHINE_CREDENTIALS"
#: Variables that hold credentials, by scheme.
_CREDENTIALS = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ),
    "gs": (
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
    ),
    "az": (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_CLIENT_ID",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
    ),
}
_GOOGLE_FILE = ".config/gcloud/application_default_credentials.json"
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_MOST_CHARACTERS = 300


class BucketFile(RemoteFile):
    """Object in a bucket; create it with :meth:`opened`, which looks up its size and version.

    Args:
        store: The bucket.
        key: Name of the object in the bucket.
        where: Name of the object in messages.
    """

    def __init__(self, store: ObjectStore, key: str, *, where: str) -> None:
        import obstore  # loaded already by who made the store

        self._store = store
        self._key = key
        self._where = where
        with _errors(where):
            metadata = obstore.head(store, key)
        self._nbytes = metadata["size"]
        self._tag = metadata["e_tag"]

    @classmethod
    def opened(cls, reference: UrlReference) -> Self:
        """Return the object that a reference names.

        Raises:
            MissingExtraError: The library is not installed.
            RegistryError: See :class:`RemoteFile`.
        """
        try:
            from obstore.store import from_url  # 16 MB of machine code
        except ImportError as error:
            raise MissingExtraError(f"{reference.scheme}://", "obstore", error) from error
        bucket, _, key = reference.url.partition("://")[2].partition("/")
        where = str(reference)
        with _errors(where):
            store = from_url(
                f"{reference.scheme}://{bucket}",
                config={"skip_signature": not _has_credentials(reference.scheme)},
                client_options=_client_options(),
            )
        return cls(store, key, where=where)

    @property
    def where(self) -> str:
        return self._where

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @contextmanager
    def read(self, start: int = 0, end: int | None = None) -> Iterator[Iterator[bytes]]:
        yield self._pieces(start, self._nbytes if end is None else end)

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        import obstore  # see above

        for position in range(start, end, _PIECE_NBYTES):
            wanted = (position, min(position + _PIECE_NBYTES, end))
            with _errors(self._where):
                answer = obstore.get(
                    self._store, self._key, options={"range": wanted, "if_match": self._tag}
                )
                content = bytes(answer.bytes())
            if len(content) != wanted[1] - wanted[0]:
                raise RegistryError(
                    f"{self._where}: {len(content)} bytes came for a part of"
                    f" {wanted[1] - wanted[0]}",
                    registry=self._where,
                )
            yield content


def _has_credentials(scheme: str) -> bool:
    if any(os.environ.get(name) for name in _CREDENTIALS[scheme]):
        return True
    has_file = scheme == "gs" and Path(below_home(f"~/{_GOOGLE_FILE}")).is_file()
    return has_file or flag_variable(_MACHINE_VARIABLE)


def _client_options() -> ClientConfig:
    """Return options that allow plain HTTP on this machine only, or with ``AWS_ALLOW_HTTP`` etc."""
    options: ClientConfig = {"user_agent": f"ortpkg/{__version__}", "timeout": _TIMEOUT}
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
    if is_loopback(urlsplit(endpoint).hostname or ""):
        options["allow_http"] = True
    return options


@contextmanager
def _errors(where: str) -> Iterator[None]:
    """Convert the library's exceptions to ours, with their first line and without URL queries."""
    from obstore.exceptions import (
        BaseError,
        PermissionDeniedError,
        PreconditionError,
        UnauthenticatedError,
    )

    try:
        yield
    except FileNotFoundError as error:
        raise ArtifactNotFoundError(f"{where}: there is no such file", registry=where) from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise RegistryAuthenticationError(
            f"{where}: it is given to nobody without credentials, or not to these", registry=where
        ) from error
    except PreconditionError as error:
        raise RegistryError(
            f"{where}: it is another file by now than when it was begun: try again", registry=where
        ) from error
    except (BaseError, OSError, ValueError) as error:
        text = re.sub(r"\?\S*", "", str(error).partition("\n")[0])[:_MOST_CHARACTERS]
        raise RegistryUnreachableError(f"{where}: {quoted(text)}", registry=where) from None
