"""A file of a repository on a hub of models (``hf://``), by the library huggingface_hub.

That library says which hub (``HF_ENDPOINT``), where a file of which commit is, and what is wrong
where it is not there. The bytes come as those of other servers: in parts, resumed, bounded. So it
keeps no cache, and nothing but what was asked for goes to the hub.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from ortpkg.errors import (
    ArtifactNotFoundError,
    MissingExtraError,
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnreachableError,
    quoted,
)
from ortpkg.registry.http_addresses import is_loopback
from ortpkg.registry.http_file import HttpFile
from ortpkg.registry.http_retries import RETRIED_STATUSES
from ortpkg.registry.http_transport import HttpTransport
from ortpkg.registry.secret import Secret
from ortpkg.registry.url_references import UrlReference, hub_file
from ortpkg.version import __version__

_TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_MOST_TOKEN_CHARACTERS = 4096


def open_hub_file(reference: UrlReference, transport: HttpTransport) -> HttpFile:
    """The file that an ``hf://`` names, of the commit that its revision names now.

    MissingExtraError where the library is not installed; else as
    :class:`~ortpkg.registry.remote_file.RemoteFile` says.
    """
    try:
        from huggingface_hub import constants, hf_hub_url
    except ImportError as error:
        raise MissingExtraError(f"{reference.scheme}://", "huggingface_hub", error) from error
    # Else it asks the hub which programs to look for here, and tells it which it found.
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
    """The commit that has the file now; a branch may leave it at any time."""
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
        found = get_hf_file_metadata(
            url,
            token=token.reveal() or False,
            # Its own says which libraries and programs are here.
            headers={"user-agent": f"ortpkg/{__version__}"},
        )
    except (errors.EntryNotFoundError, errors.RevisionNotFoundError) as error:
        raise ArtifactNotFoundError(
            f"{where}: the repository has no such file, or no such revision", registry=where
        ) from error
    except errors.GatedRepoError as error:  # a RepositoryNotFoundError, too
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
    except Exception as error:  # errors of the HTTP library that its release is on, too
        raise _unreachable(error, where) from error
    if not found.commit_hash:
        raise RegistryError(
            f"{where}: {quoted(urlsplit(url).netloc)} does not say which commit that is: it is no"
            " hub",
            registry=where,
        )
    return found.commit_hash


def _unreachable(error: Exception, where: str) -> RegistryUnreachableError:
    status = getattr(getattr(error, "response", None), "status_code", None)
    said = (
        f"answers with status {status}" if status else f"does not answer ({type(error).__name__})"
    )
    return RegistryUnreachableError(
        f"{where}: the hub {said}",
        registry=where,
        is_lasting=status is not None and status not in RETRIED_STATUSES,
        is_unconnected=status is None,
    )


def _token(path: Path) -> Secret:
    """The user's token, read where the library keeps it; the library would renew and rewrite it."""
    stated = next((os.environ[name] for name in _TOKEN_VARIABLES if os.environ.get(name)), "")
    if not stated:
        try:
            stated = path.read_text(encoding="utf-8")[:_MOST_TOKEN_CHARACTERS]
        except (OSError, UnicodeDecodeError):
            stated = ""
    return Secret(stated.strip())
