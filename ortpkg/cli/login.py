"""``ortpkg login``: checks and stores a password for a registry."""

from __future__ import annotations

import getpass
import os
import sys
from typing import Annotated

import typer

from ortpkg.cli.parameters import RegistryArgument
from ortpkg.cli.rendering import Output
from ortpkg.distribution.registry.credentials import (
    CONFIG_TEXT_VARIABLE,
    Credentials,
    config_file,
    keep_credentials,
)
from ortpkg.distribution.registry.registry_client import RegistryClient
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import ExitCode, UsageError
from ortpkg.package.references.http_addresses import parse_registry_host

_MOST_PASSWORD_NBYTES = 64 * 1024


UsernameOption = Annotated[
    str | None,
    typer.Option("--username", "-u", metavar="USER", help="Default: asked for on a terminal."),
]
PasswordStdinOption = Annotated[
    bool,
    typer.Option("--password-stdin", help="Read the password, or a token, from standard input."),
]
PlainHttpOption = Annotated[
    bool,
    typer.Option(
        "--plain-http",
        help="Without encryption: everybody on the way reads the password.",
    ),
]


def command(
    output: Output,
    registry: RegistryArgument,
    username: UsernameOption = None,
    password_stdin: PasswordStdinOption = False,
    plain_http: PlainHttpOption = False,
) -> int:
    """Try a user name and password at a registry, and keep them where Docker does.

    That is the helper program that Docker's config file names, or else that file, readable by you
    alone. Docker and others that read it are logged in, too.
    """
    host = parse_registry_host(registry)
    credentials = _read_credentials(username, is_piped=password_stdin)
    client = RegistryClient(host, is_plain_http=True if plain_http else None)
    if not client.try_credentials(credentials):
        output.warning(f"{host} asks nobody who they are: the password was not tried")
    storage = keep_credentials(host.credentials_key, credentials)
    if storage == str(config_file()):
        output.warning(
            f"the password stands in {storage}, which you alone may read, but not encrypted; a"
            " helper program (credsStore in that file) would keep it better"
        )
    if os.environ.get(CONFIG_TEXT_VARIABLE):
        output.warning(f"what {CONFIG_TEXT_VARIABLE} says comes before what is kept")
    if output.is_json:
        output.json(
            "login", {"registry": str(host), "username": credentials.username, "kept_in": storage}
        )
    else:
        output.line(f"logged in to {host} as {credentials.username}")
    return ExitCode.DONE


def _read_credentials(username: str | None, *, is_piped: bool) -> Credentials:
    """Return the user name and password from the command line, standard input or terminal."""
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if username is None:
        if is_piped or not has_terminal:
            raise UsageError("give the user name: --username USER")
        username = typer.prompt("User name", err=True)
    if not username or not username.isprintable() or ":" in username:
        raise UsageError("a user name is a printable text without a colon")
    if is_piped:
        password = _piped_password()
    elif has_terminal:
        password = getpass.getpass("Password: ")
    else:
        raise UsageError(
            "standard input is no terminal: give the password by --password-stdin, so that it"
            " stands on no command line"
        )
    if not password:
        raise UsageError("the password is empty")
    return Credentials(username=username, password=Secret(password))


def _piped_password() -> str:
    """Return standard input without the end of its last line."""
    data = sys.stdin.buffer.read(_MOST_PASSWORD_NBYTES + 1) if sys.stdin is not None else b""
    if len(data) > _MOST_PASSWORD_NBYTES:
        raise UsageError(f"the password has more than {_MOST_PASSWORD_NBYTES} bytes")
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError("the password on standard input is not UTF-8") from None
