"""Reads ``trust.toml``: the user's own file, never one of a project or of a package.

::

    [signers.vision-team]
    key = "keys/vision.pub"

    [signers.releases]
    identity = "releases@models.example"
    trust_roots = "authority.pem"

    [[packages]]
    names = ["vision-*", "oci://models.example/vision/*"]
    signers = ["vision-team", "releases"]
    native_contexts = true
    minimal_version = "2.1"
    valid_until = 2027-06-30

    [[packages]]
    names = ["scratch-*"]
    signers = "anyone"
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.toml_documents import read_toml
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.versions import parse_version
from ortpkg.package.trust.policy_place import policy_file
from ortpkg.package.trust.signing.openssf_signature import TrustedSigner
from ortpkg.package.trust.trust_policy import PublisherRule, TrustPolicy

_ANYONE = "anyone"
_MOST_KEY_NBYTES = 1 << 20
_TOP = ("signers", "packages")
_SIGNER = ("key", "identity", "trust_roots")
_RULE = ("names", "signers", "native_contexts", "minimal_version", "valid_until")


def read_policy(file: Path | None = None) -> TrustPolicy | None:
    """Return the policy in ``file``, or the one that applies here; None if there is none.

    Raises:
        UsageError: The file cannot be read or has an error; the message says where, and what is
            expected. A policy is never applied in part.
    """
    path = file or policy_file()
    return None if path is None else _PolicyReader(path).read()


class _PolicyReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._signers: dict[str, TrustedSigner] = {}

    def read(self) -> TrustPolicy:
        document = read_toml(self._path, name=f"the trust policy {quoted(self._path)}") or {}
        self._check_keys(document, _TOP, "")
        signers, rules = document.get("signers", {}), document.get("packages", [])
        if not isinstance(signers, dict):
            raise self._wrong("signers", "is not a table [signers.NAME] for each signer")
        if not isinstance(rules, list) or not rules:
            raise self._wrong("packages", "is not a list of one [[packages]] or more")
        for name, table in signers.items():
            self._signers[name] = self._signer(name, table)
        return TrustPolicy(
            source=self._path,
            rules=tuple(self._rule(table, number) for number, table in enumerate(rules, 1)),
        )

    def _signer(self, name: str, table: object) -> TrustedSigner:
        where = f"signers.{name}"
        if not isinstance(table, dict):
            raise self._wrong(where, "is not a table")
        self._check_keys(table, _SIGNER, where)
        if set(table) == {"key"}:
            return TrustedSigner(name=name, key=self._file(table["key"], f"{where}.key"))
        if set(table) != {"identity", "trust_roots"}:
            raise self._wrong(where, "has to have key, or identity and trust_roots, not both")
        return TrustedSigner(
            name=name,
            identity=self._text(table["identity"], f"{where}.identity"),
            roots=self._file(table["trust_roots"], f"{where}.trust_roots"),
        )

    def _rule(self, table: object, number: int) -> PublisherRule:
        where = f"packages[{number}]"
        if not isinstance(table, dict):
            raise self._wrong(where, "is not a table")
        self._check_keys(table, _RULE, where)
        for key in ("names", "signers"):
            if key not in table:
                raise self._wrong(where, f"has no {key}")
        signers = self._signers_of(table["signers"], f"{where}.signers")
        native = table.get("native_contexts", False)
        if not isinstance(native, bool):
            raise self._wrong(f"{where}.native_contexts", "is neither true nor false")
        if native and signers is None:
            raise self._wrong(
                f"{where}.native_contexts", f'cannot be true where signers is "{_ANYONE}"'
            )
        return PublisherRule(
            names=self._texts(table["names"], f"{where}.names"),
            signers=signers,
            may_ship_native_contexts=native,
            minimal_version=self._version(table.get("minimal_version"), where),
            valid_until=self._day(table.get("valid_until"), where),
        )

    def _signers_of(self, value: object, where: str) -> tuple[TrustedSigner, ...] | None:
        if value == _ANYONE:
            return None
        if isinstance(value, str):
            raise self._wrong(where, f'is neither a list of signers nor "{_ANYONE}"')
        names = self._texts(value, where)
        for name in names:
            if name not in self._signers:
                raise self._wrong(
                    where,
                    f"names {quoted(name)}, and there is no [signers.{name}]"
                    f"{did_you_mean(name, list(self._signers))}",
                )
        return tuple(self._signers[name] for name in names)

    def _version(self, value: object, where: str) -> str:
        if value is None:
            return ""
        where = f"{where}.minimal_version"
        text = self._text(value, where)
        if parse_version(text) is None:
            raise self._wrong(where, f"is {quoted(text[:80])}, no version such as 2.1")
        return text

    def _day(self, value: object, where: str) -> dt.date | None:
        if value is None:
            return None
        if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
            raise self._wrong(f"{where}.valid_until", "is not a day such as 2027-06-30, unquoted")
        return value

    def _file(self, value: object, where: str) -> bytes:
        path = self._path.parent / self._text(value, where)
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_KEY_NBYTES + 1)
        except OSError as error:
            raise self._wrong(
                where, f"names {quoted(path)}, which cannot be read: {error.strerror}"
            ) from error
        if not content.strip() or len(content) > _MOST_KEY_NBYTES:
            raise self._wrong(where, f"names {quoted(path)}, which is no PEM file")
        return content

    def _texts(self, value: object, where: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise self._wrong(where, "is not a list of one text or more")
        return tuple(self._text(item, where) for item in value)

    def _text(self, value: object, where: str) -> str:
        if not isinstance(value, str) or not value or not value.isprintable():
            raise self._wrong(where, "is not a text")
        return value

    def _check_keys(
        self, table: Mapping[str, Any], known_keys: Collection[str], where: str
    ) -> None:
        for key in table:
            if key not in known_keys:
                raise self._wrong(
                    f"{where}.{key}".lstrip("."),
                    f"is not known here; known are {', '.join(known_keys)}"
                    f"{did_you_mean(key, list(known_keys))}",
                )

    def _wrong(self, where: str, what: str) -> UsageError:
        return UsageError(f"the trust policy {quoted(self._path)}: {where} {what}")
