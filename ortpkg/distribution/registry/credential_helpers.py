"""Client of credential helpers, the programs ``docker-credential-NAME`` that store credentials.

Source: docker/docker-credential-helpers, README, "Development". Their output is never shown, since
it may contain a secret.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading

from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import CredentialsError, quoted

#: A key chain may ask its owner first.
_MOST_S = 120.0
_MOST_NBYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Texts that helpers print for an unknown registry.
_NOT_FOUND = (b"credentials not found", b"no credentials")


def fetch(helper: str, key: str) -> tuple[str, Secret] | None:
    """Return the user name and secret of a registry, or None if the helper has none."""
    code, printed = _run(helper, "get", key.encode())
    if code != 0:
        if any(text in printed.lower() for text in _NOT_FOUND):
            return None
        raise _failed(helper, "get", f"ended with status {code}")
    try:
        answer = json.loads(printed)
        username, secret = answer["Username"], answer["Secret"]
        if not (isinstance(username, str) and isinstance(secret, str)):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _failed(helper, "get", "did not print Username and Secret as JSON") from None
    return (username, Secret(secret)) if secret else None


def keep(helper: str, key: str, username: str, password: Secret) -> None:
    """Store credentials with a helper."""
    document = {"ServerURL": key, "Username": username, "Secret": password.reveal()}
    code, _ = _run(helper, "store", json.dumps(document).encode())
    if code != 0:
        raise _failed(helper, "store", f"ended with status {code}")


def erase(helper: str, key: str) -> bool:
    """Erase a registry's credentials from a helper; return True if the helper reports success."""
    code, _ = _run(helper, "erase", key.encode())
    return code == 0


def _failed(helper: str, action: str, what: str) -> CredentialsError:
    return CredentialsError(
        f"the credential helper docker-credential-{helper} {action} {what}; Docker's config file"
        " names it",
        is_helper_unusable=True,
    )


def _run(helper: str, action: str, content: bytes) -> tuple[int, bytes]:
    """Run a helper; return its exit status and its output."""
    if _NAME.fullmatch(helper) is None:
        raise CredentialsError(f"{quoted(helper)} is no name of a credential helper")
    program = shutil.which(f"docker-credential-{helper}")
    if program is None:
        raise CredentialsError(
            f"Docker's config file names the credential helper docker-credential-{helper}, which"
            " is not on PATH",
            is_helper_unusable=True,
        )
    try:
        process = subprocess.Popen(
            [program, action],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as error:
        raise _failed(helper, action, f"does not start: {error.strerror}") from error
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        process.kill()

    timer = threading.Timer(_MOST_S, stop)
    timer.daemon = True
    timer.start()
    try:
        printed = _converse(process, content)
    finally:
        timer.cancel()
        process.kill()
        code = process.wait()
    if is_late.is_set():
        raise _failed(helper, action, f"did not answer within {_MOST_S:g} s")
    if len(printed) > _MOST_NBYTES:
        raise _failed(helper, action, f"printed more than {_MOST_NBYTES >> 20} MiB")
    return code, printed


def _converse(process: subprocess.Popen[bytes], content: bytes) -> bytes:
    """Write a helper's input and return its output, cut off one byte past the limit."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin as stream:
            stream.write(content)
    except BrokenPipeError:
        pass  # the helper does not read its input; its exit status says why
    with process.stdout as stream:
        printed = stream.read(_MOST_NBYTES + 1)
    if len(printed) <= _MOST_NBYTES:
        process.wait()
    return printed
