"""Credentials for registries, from Docker's config file and the helper programs that it names.

The first source that knows the registry counts: the variable ``DOCKER_AUTH_CONFIG`` (the text of a
config file), then the file ``config.json`` in ``DOCKER_CONFIG`` or ``~/.docker``; in it the
registry's own helper (``credHelpers``), the helper for all (``credsStore``), and ``auths``.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from ortpkg.distribution.registry.credential_helpers import erase, fetch, keep
from ortpkg.distribution.registry.secret import NO_SECRET, Secret
from ortpkg.foundations.errors import CredentialsError, quoted
from ortpkg.foundations.host.directories import below_home
from ortpkg.foundations.storage.file_replacement import replace_file

CONFIG_TEXT_VARIABLE = "DOCKER_AUTH_CONFIG"
CONFIG_FOLDER_VARIABLE = "DOCKER_CONFIG"
_MOST_CONFIG_NBYTES = 4 << 20
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
#: User name that a helper returns when the secret is an identity token.
_TOKEN_USER = "<token>"  # noqa: S105 - no password


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials for a registry or its token server, of one of three kinds.

    Attributes:
        username, password: User name and password, if ``password`` is set.
        identity_token: OAuth 2 refresh token, to exchange for access tokens.
        registry_token: Access token.
    """

    username: str = ""
    password: Secret = NO_SECRET
    identity_token: Secret = NO_SECRET
    registry_token: Secret = NO_SECRET

    @property
    def is_empty(self) -> bool:
        """True if there is neither a password nor a token."""
        return not (self.password or self.identity_token or self.registry_token)


def find_credentials(key: str) -> Credentials | None:
    """Return the credentials of the registry that Docker knows as ``key`` (``host:port``), or None.

    If the helper is not installed or fails, the entry in the config file counts.

    Raises:
        CredentialsError: The config file or the helper cannot be used.
    """
    text = os.environ.get(CONFIG_TEXT_VARIABLE, "")
    if text.strip():
        credentials = _from_auths(_parse(text.encode(), CONFIG_TEXT_VARIABLE), key)
        if credentials is not None:
            return credentials
    config = _read_config(config_file())
    helper = helper_for(config, key)
    if helper:
        try:
            name_and_secret = fetch(helper, key)
        except CredentialsError as error:
            in_file = _from_auths(config, key)
            if not error.is_helper_unusable or in_file is None:
                raise
            return in_file
        if name_and_secret is not None:
            username, secret = name_and_secret
            if username == _TOKEN_USER:
                return Credentials(identity_token=secret)
            return Credentials(username=username, password=secret)
    return _from_auths(config, key)


def keep_credentials(key: str, credentials: Credentials) -> str:
    """Store a user name and password; return the file's path or the helper's name."""
    file = config_file()
    config = _read_config(file)
    helper = helper_for(config, key)
    if helper:
        keep(helper, key, credentials.username, credentials.password)
        return f"docker-credential-{helper}"
    account = f"{credentials.username}:{credentials.password.reveal()}".encode()
    auths = {**_object(config, "auths"), key: {"auth": base64.b64encode(account).decode()}}
    _write_config(file, {**config, "auths": auths})
    return str(file)


def forget_credentials(key: str) -> bool:
    """Remove credentials from the helper and the file; return True if there were any."""
    file = config_file()
    config = _read_config(file)
    helper = helper_for(config, key)
    is_erased = bool(helper) and erase(helper, key)
    auths = _object(config, "auths")
    remaining = {name: entry for name, entry in auths.items() if _host_of(name) != _host_of(key)}
    if len(remaining) != len(auths):
        _write_config(file, {**config, "auths": remaining})
        return True
    return is_erased


def config_file() -> Path:
    """Path of Docker's config file, which may not exist."""
    folder = os.environ.get(CONFIG_FOLDER_VARIABLE)
    if folder:
        return Path(folder, "config.json")
    return Path(below_home("~/.docker/config.json"))


def helper_for(config: Mapping[str, Any], key: str) -> str:
    """Return the name of the helper that keeps a registry's credentials, or "" if the file does."""
    helpers = _object(config, "credHelpers")
    named = helpers.get(key, config.get("credsStore", ""))
    return named if isinstance(named, str) else ""


def _from_auths(config: Mapping[str, Any], key: str) -> Credentials | None:
    auths = _object(config, "auths")
    entry = auths.get(key)
    if entry is None:  # older clients stored whole addresses
        entry = next(
            (value for name, value in auths.items() if _host_of(name) == _host_of(key)), None
        )
    if not isinstance(entry, Mapping):
        return None
    username, password = _text(entry, "username"), _text(entry, "password")
    if auth := _text(entry, "auth"):
        username, password = _decoded(auth, key)
    credentials = Credentials(
        username=username,
        password=Secret(password),
        identity_token=Secret(_text(entry, "identitytoken")),
        registry_token=Secret(_text(entry, "registrytoken")),
    )
    return None if credentials.is_empty else credentials


def _host_of(key: str) -> str:
    """Return the host of a key, which may be an address, like Docker's ConvertToHostname."""
    return urlsplit(key if "://" in key else f"//{key}").netloc.lower()


def _decoded(auth: str, key: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(auth, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        text = ""
    username, colon, password = text.partition(":")
    if not colon:
        raise CredentialsError(
            f"what is kept for {quoted(key)} is no base64 of USER:PASSWORD; log in again"
        ) from None
    return username, password.strip("\0")


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


def _object(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = config.get(name)
    return value if isinstance(value, Mapping) else {}


def _read_config(file: Path) -> dict[str, Any]:
    try:
        with open(file, "rb", opener=_open_nonblocking) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ValueError("it is no plain file")
            data = stream.read(_MOST_CONFIG_NBYTES + 1)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CredentialsError(f"cannot read {quoted(file)}: {reason}") from error
    return _parse(data, str(file)) if data.strip() else {}


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file; a pipe is opened without waiting for its other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _parse(data: bytes, source: str) -> dict[str, Any]:
    """Return the JSON object of a config file; messages never quote its text."""
    try:
        if len(data) > _MOST_CONFIG_NBYTES:
            raise ValueError
        config = json.loads(data)
        if not isinstance(config, dict):
            raise ValueError  # noqa: TRY004
    except (ValueError, RecursionError):
        raise CredentialsError(
            f"{quoted(source)} is no JSON object of at most {_MOST_CONFIG_NBYTES >> 20} MiB, as"
            " Docker writes it"
        ) from None
    return config


def _write_config(file: Path, config: Mapping[str, Any]) -> None:
    """Replace the file, or the target of its link, in one step; only the owner may read it."""
    content = json.dumps(config, indent="\t").encode() + b"\n"

    def write(stream: BinaryIO) -> None:
        if hasattr(os, "fchmod"):  # before it has content
            os.fchmod(stream.fileno(), _PRIVATE_FILE)
        stream.write(content)

    try:
        real = Path(os.path.realpath(file))
        real.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        replace_file(real, write, mode=_PRIVATE_FILE)
    except OSError as error:
        raise CredentialsError(f"cannot write {quoted(file)}: {error.strerror or error}") from error
