"""Files of repositories on a hub of models (``hf://``), located with the library huggingface_hub.

The library says which hub to use (``HF_ENDPOINT``), where the file of a commit is, and what is
wrong if it is missing. The bytes are downloaded like those of other servers: in parts, resumed,
bounded. There is no cache, and the hub gets no data but the request.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from ortpkg.distribution.registry.http_file import HttpFile
from ortpkg.distribution.registry.http_retries import RETRIED_STATUSES
from ortpkg.distribution.registry.http_transport import HttpTransport
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import (
    ArtifactNotFoundError,
    MissingExtraError,
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnreachableError,
    quoted,
)
from ortpkg.foundations.version import __version__
from ortpkg.package.references.http_addresses import is_loopback
from ortpkg.package.references.url_references import UrlReference, hub_file

_TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_MOST_TOKEN_CHARACTERS = 4096


def open_hub_file(reference: UrlReference, transport: HttpTransport) -> HttpFile:
    """Open the file that an ``hf://`` reference names, at the commit that its revision names now.

    Raises:
        MissingExtraError: The library is not installed.
        RegistryError: See :class:`~ortpkg.distribution.registry.remote_file.RemoteFile`.
    """
    try:
        from huggingface_hub import constants, hf_hub_url
    except ImportError as error:
        raise MissingExtraError(f"{reference.scheme}://", "huggingface_hub", error) from error
    # Otherwise the library asks the hub which programs to look for, and reports those it finds.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    file, where = hub_file(reference), str(reference)
    endpoint = urlsplit(constants.ENDPOINT)
    if endpoint.scheme != "https" and not is_loopback(endpoint.hostname or ""):
        raise RegistryError(
            f"{where}: HF_ENDPOINT names a hub that is not asked over HTTPS", registry=where
        )
    token = _token(Path(constants.HF_TOKEN_PATH))

    def url_of(revision: str | None) -> str:
        return hf_hub_url(
            file.repository,
            file.path,
            repo_type=file.kind.removesuffix("s"),
            revision=revision,
        )

    commit = _commit(url_of(file.revision), token, where, transport)
    authorization = Secret(f"Bearer {token.reveal()}") if token else None
    return HttpFile.opened(transport, url_of(commit), authorization)


def _commit(url: str, token: Secret, where: str, transport: HttpTransport) -> str:
    """Return the commit that has the file now; a branch may move at any time."""
    retries = transport.retries()
    while True:
        try:
            return _commit_now(url, token, where)
        except RegistryUnreachableError as error:
            if error.is_lasting or not retries.wait(is_unconnected=error.is_unconnected):
                raise


def _commit_now(url: str, token: Secret, where: str) -> str:
    from huggingface_hub import errors, get_hf_file_metadata

    try:
        metadata = get_hf_file_metadata(
            url,
            token=token.reveal() or False,
            # The library's own header lists installed libraries and programs.
            headers={"user-agent": f"ortpkg/{__version__}"},
        )
    except (errors.EntryNotFoundError, errors.RevisionNotFoundError) as error:
        raise ArtifactNotFoundError(
            f"{where}: the repository has no such file, or no such revision", registry=where
        ) from error
    except errors.GatedRepoError as error:  # also a subclass of RepositoryNotFoundError
        raise RegistryAuthenticationError(
            f"{where}: its owner gives it to those who are let in: ask for it on the hub, and set"
            " HF_TOKEN",
            registry=where,
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise RegistryAuthenticationError(
            f"{where}: there is no such repository, or it is not for these credentials: set"
            " HF_TOKEN, or hf auth login",
            registry=where,
        ) from error
    except errors.OfflineModeIsEnabled as error:
        raise RegistryUnreachableError(
            f"{where}: HF_HUB_OFFLINE says that the hub is not to be asked",
            registry=where,
            is_lasting=True,
        ) from error
    except Exception as error:  # includes errors of whichever HTTP library this release uses
        raise _unreachable(error, where) from error
    if not metadata.commit_hash:
        raise RegistryError(
            f"{where}: {quoted(urlsplit(url).netloc)} does not say which commit that is: it is no"
            " hub",
            registry=where,
        )
    return metadata.commit_hash


def _unreachable(error: Exception, where: str) -> RegistryUnreachableError:
    status = getattr(getattr(error, "response", None), "status_code", None)
    reason = (
        f"answers with status {status}" if status else f"does not answer ({type(error).__name__})"
    )
    return RegistryUnreachableError(
        f"{where}: the hub {reason}",
        registry=where,
        is_lasting=status is not None and status not in RETRIED_STATUSES,
        is_unconnected=status is None,
    )


def _token(path: Path) -> Secret:
    """Return the user's token from the library's file, which the library itself would rewrite."""
    token = next((os.environ[name] for name in _TOKEN_VARIABLES if os.environ.get(name)), "")
    if not token:
        try:
            token = path.read_text(encoding="utf-8")[:_MOST_TOKEN_CHARACTERS]
        except (OSError, UnicodeDecodeError):
            token = ""
    return Secret(token.strip())
