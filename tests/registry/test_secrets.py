"""No text of ours holds a secret, whoever repeats it and however it is written."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from urllib.parse import quote

import pytest

from ortpkg.cli.rendering import Output, print_error
from ortpkg.distribution.registry.credentials import Credentials
from ortpkg.distribution.registry.http_retries import RetryPolicy
from ortpkg.distribution.registry.http_transport import HttpTransport
from ortpkg.distribution.registry.oci_registry import OciRegistry
from ortpkg.distribution.registry.registry_answers import _first_error
from ortpkg.distribution.registry.registry_client import RegistryClient
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    OrtpkgError,
    RegistryError,
    printable,
    quoted,
    redacted,
    redacted_answer,
    redacted_quotation,
)
from ortpkg.package.references.http_addresses import parse_registry_host
from tests.registry.local_server import LocalServer, at_work

PASSWORD = 'cor/rect "horse" bättery'
USER = "ann"


def _account() -> str:
    return base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


FORMS: dict[str, Callable[[], str]] = {
    "plain": lambda: PASSWORD,
    "in base64": lambda: base64.b64encode(PASSWORD.encode()).decode(),
    "with its user, in base64": _account,
    "in an address": lambda: quote(PASSWORD, safe=""),
    "in JSON": lambda: json.dumps(PASSWORD),
    "as Python writes it": lambda: repr(PASSWORD),
}


def _is_free_of_it(text: str) -> bool:
    shown = [PASSWORD, PASSWORD[:8], repr(PASSWORD)[1:-1], quote(PASSWORD, safe="")]
    shown += [json.dumps(PASSWORD)[1:-1], _account(), _account()[6:20]]
    shown += [base64.b64encode(PASSWORD.encode()).decode()[:16]]
    return not any(each in text for each in shown)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_leaves_in_no_message(form: str) -> None:
    secret = Secret(PASSWORD)
    said = f"you sent {FORMS[form]()}, ha"

    texts = [quoted(said), printable(ValueError(said)), str(RegistryError(said, registry="r"))]
    texts += [redacted(said), repr(RegistryError(said, registry="r"))]
    assert all(_is_free_of_it(text) and "ha" in text for text in texts), texts
    assert secret.reveal() == PASSWORD


@pytest.mark.parametrize(
    "form",
    [
        PASSWORD.upper(),
        PASSWORD.title(),
        PASSWORD.encode().hex(),
        PASSWORD.encode().hex().upper(),
        quote(PASSWORD, safe="").upper(),
        json.dumps(PASSWORD.upper())[1:-1],
        base64.b64encode(PASSWORD.encode()).decode().lower(),
    ],
)
def test_a_secret_leaves_in_no_other_case_and_not_in_hex(form: str) -> None:
    secret = Secret(PASSWORD)

    for hide in (redacted, redacted_quotation, redacted_answer):
        assert hide(f"you sent {form}, ha") == "you sent (secret), ha"
    assert redacted(f"you sent {PASSWORD[:12].upper()}") == "you sent (secret)"
    assert secret


def test_a_letter_that_is_two_in_capitals_hides_no_less() -> None:
    secret = Secret("straße-nach-süd")

    assert redacted("you sent STRASSE-NACH-SÜD, ha") == "you sent (secret), ha"
    assert secret


def test_a_short_secret_in_another_case_is_a_word_as_any() -> None:
    secret, number = Secret("walrus"), Secret("is")

    assert redacted_answer("Walrus of walrus") == "Walrus of (secret)"
    assert redacted_quotation("sha256:6973ab IS") == "sha256:6973ab IS"
    assert secret
    assert number


def test_a_text_that_is_cut_off_in_a_secret_ends_before_it() -> None:
    secret = Secret(PASSWORD)

    assert redacted(f"you sent {PASSWORD[:12]}") == "you sent (secret)"
    assert "correct" not in quoted("x" * 190 + PASSWORD)
    assert secret


def test_a_header_is_hidden_without_its_scheme() -> None:
    header = Secret("Bearer abcdef.ghijkl")

    assert redacted("Bearer abcdef.ghijkl, or abcdef.ghijkl") == "Bearer (secret), or (secret)"
    assert header


def test_a_short_secret_hides_no_part_of_a_word_and_no_word_of_ours() -> None:
    secret = Secret("is")

    assert redacted_quotation("this is his") == "this (secret) his"
    assert redacted("this is his") == "this is his"
    # What is quoted in messages may be a message of ours, too.
    assert quoted("this is his") == "'this is his'"
    assert str(ValueError("it is not JSON")) == printable(ValueError("it is not JSON"))
    assert secret


def test_a_word_that_begins_like_a_secret_in_another_case_is_shown() -> None:
    secrets = [Secret("identity-1"), Secret("correct-horse-battery")]

    assert redacted("com.acme:Identity") == "com.acme:Identity"
    assert redacted("you sent CORRECT-HORSE") == "you sent (secret)"
    assert secrets


def test_a_short_password_that_a_registry_repeats_is_hidden_in_what_it_says() -> None:
    secret = Secret("s3cr")
    body = b'{"errors": [{"code": "DENIED", "message": "s3cr is wrong"}]}'

    assert _first_error(body) == ("DENIED", "DENIED, '(secret) is wrong'")
    assert secret


def test_a_password_of_six_characters_is_hidden_in_what_fails_at_a_registry() -> None:
    secret = Secret("walrus")

    error = ArtifactFormatError(
        "walrus.example:1: no key 'walrus'", registry="walrus", layer="walrus"
    )
    assert str(error) == "(secret).example:1: no key '(secret)'"
    assert (error.registry, error.layer) == ("(secret)", "(secret)")
    assert str(OrtpkgError("walrus")) == "walrus"
    assert secret


@pytest.mark.parametrize(
    "form",
    [
        "cor/rect &quot;horse&quot; bättery",
        "cor/rect &#34;horse&#34; bättery",
        "cor%2frect%20%22horse%22%20b%c3%a4ttery",
    ],
)
def test_a_secret_is_hidden_as_pages_and_addresses_write_it(form: str) -> None:
    secret = Secret(PASSWORD)

    assert redacted(f"you sent {form}, ha") == "you sent (secret), ha"
    assert secret


def test_an_address_with_a_secret_that_a_registry_names_is_in_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    server = LocalServer(("127.0.0.1", 0), Redirecting)
    credentials = Credentials(username=USER, password=Secret(PASSWORD))
    client = RegistryClient(
        parse_registry_host(f"127.0.0.1:{server.server_port}"),
        transport=HttpTransport(policy=RetryPolicy(most_tries=1)),
        find=lambda _: credentials,
    )

    with at_work(server), pytest.raises(RegistryError):
        OciRegistry(client, "models/digits").resolve("1")

    assert "GET /elsewhere/(secret)" in caplog.text or "HEAD /elsewhere/(secret)" in caplog.text
    assert _is_free_of_it(caplog.text)


def test_what_is_nobody_s_secret_any_more_is_a_word_as_any() -> None:
    first, second = Secret("batteries"), Secret("batteries")
    del first
    assert redacted("batteries") == "(secret)"
    del second
    assert redacted("batteries") == "batteries"


class Echo(BaseHTTPRequestHandler):
    """Asks for a password, and tells everybody what it was sent."""

    form = ""

    def do_GET(self) -> None:
        sent = self.headers.get("Authorization")
        status = 401 if sent is None else 400
        said = {"errors": [{"code": "DENIED", "message": f"you sent {FORMS[self.form]()}"}]}
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("WWW-Authenticate", 'Basic realm="r"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Redirecting(BaseHTTPRequestHandler):
    """Asks for a password, and sends everybody to an address that is made of it."""

    def do_GET(self) -> None:
        if "elsewhere" in self.path:
            self.send_response(404)
        else:
            self.send_response(302 if self.headers.get("Authorization") else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="r"')
        self.send_header("Location", f"/elsewhere/{quote(PASSWORD, safe='')}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_json", [False, True])
def test_a_password_that_a_registry_repeats_is_not_printed(
    form: str, is_json: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Echo, "form", form)
    server = LocalServer(("127.0.0.1", 0), Echo)
    credentials = Credentials(username=USER, password=Secret(PASSWORD))
    client = RegistryClient(
        parse_registry_host(f"127.0.0.1:{server.server_port}"),
        transport=HttpTransport(policy=RetryPolicy(most_tries=1)),
        find=lambda _: credentials,
    )

    with at_work(server), pytest.raises(RegistryError) as caught:
        OciRegistry(client, "models/digits").resolve("1")

    print_error(caught.value, Output(is_json=is_json))
    printed = capsys.readouterr()
    told = "".join(traceback.format_exception(caught.value))
    assert "you sent" in printed.err
    assert _is_free_of_it(printed.out + printed.err + told + repr(caught.value))
