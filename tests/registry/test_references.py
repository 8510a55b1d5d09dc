"""What a reference names, and how what breaks the grammar is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.foundations.errors import PackageReferenceError
from ortpkg.package.references.package_references import (
    LayoutReference,
    OciReference,
    PathReference,
    Reference,
    StoreReference,
    parse_reference,
)
from ortpkg.package.references.url_references import UrlReference

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("digits", StoreReference(name="digits")),
        ("digits:2", StoreReference(name="digits", tag="2")),
        (f"digits@{DIGEST}", StoreReference(name="digits", digest=DIGEST)),
        (f"digits:2@{DIGEST}", StoreReference(name="digits", tag="2", digest=DIGEST)),
        ("digits.ortpackage", PathReference(path=Path("digits.ortpackage"))),
        ("./digits", PathReference(path=Path("./digits"))),
        ("models/digits", PathReference(path=Path("models/digits"))),
        ("Digits", PathReference(path=Path("Digits"))),
        ("..", PathReference(path=Path(".."))),
        (
            "oci://models.example/digits:2",
            OciReference(host="models.example", repository="digits", tag="2"),
        ),
        (
            f"oci://127.0.0.1:5000/team/digits@{DIGEST}",
            OciReference(host="127.0.0.1:5000", repository="team/digits", digest=DIGEST),
        ),
        ("oci://[::1]:5000/d", OciReference(host="[::1]:5000", repository="d")),
        (
            "oci+http://models.example/d",
            OciReference(host="models.example", repository="d", is_plain_http=True),
        ),
        ("oci-layout:folder", LayoutReference(directory=Path("folder"))),
        ("oci-layout:/a/b:v1", LayoutReference(directory=Path("/a/b"), tag="v1")),
        (
            f"oci-layout:a:v1@{DIGEST}",
            LayoutReference(directory=Path("a"), tag="v1", digest=DIGEST),
        ),
        ("oci-layout:C:\\models", LayoutReference(directory=Path("C:\\models"))),
        (
            "https://a.example/d.ortpkg",
            UrlReference(scheme="https", url="https://a.example/d.ortpkg"),
        ),
        ("s3://bucket/d.ortpkg", UrlReference(scheme="s3", url="s3://bucket/d.ortpkg")),
        (
            "http://127.0.0.1:8000/d.ortpkg",
            UrlReference(scheme="http", url="http://127.0.0.1:8000/d.ortpkg"),
        ),
        (
            "ortpkg+http://files.example/d.ortpkg",
            UrlReference(scheme="http", url="http://files.example/d.ortpkg"),
        ),
    ],
)
def test_a_reference_names(text: str, expected: Reference) -> None:
    assert parse_reference(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"digits:2@{DIGEST}",
        "oci://h:1/a/b:t",
        "oci+http://h/a",
        f"oci-layout:a:v1@{DIGEST}",
        "https://h/a.ortpkg",
        "http://localhost:80/a.ortpkg",
        "ortpkg+http://h/a.ortpkg",
        "gs://bucket/a/b.ortpkg",
        "hf://ann/digits@v1/a/b.ortpkg",
    ],
)
def test_a_reference_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_reference(text)) == text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "names no package"),
        ("a\0b", "names no package"),
        ("x" * 5000, "names no package"),
        ("digits:", "not a tag"),
        ("digits:-1", "not a tag"),
        ("digits@sha256:12", "not a digest"),
        ("digits@sha512:" + "ab" * 64, "not a digest"),
        ("ocl://h/d", "did you mean"),
        ("http://h/d.ortpkg", "plain HTTP"),
        ("https://h/d", "oci://host/repository"),
        ("https://", "ends after"),
        ("https://h:0x/d.ortpkg", "Port could not"),
        ("s3://bucket/", "a packed file"),
        ("s3://bucket/d.ortpkg#x", "no . or #"),
        ("s3://-/d.ortpkg", "not the name of a bucket"),
        ("hf://digits/d.ortpkg", "hf://OWNER/NAME"),
        ("hf://ann/digits@../d.ortpkg", "hf://OWNER/NAME"),
        ("hf://ann/digits/../d.ortpkg", "hf://OWNER/NAME"),
        ("oci://h", "names no repository"),
        ("oci://h/", "names no repository"),
        ("oci:///d", "not a host"),
        ("oci://h:99999/d", "not a host"),
        ("oci://h/Digits", "not a repository"),
        ("oci://h/a//b", "not a repository"),
        ("oci://h/../b", "not a repository"),
        ("oci://h/" + "a" * 300, "not a repository"),
        ("oci://h/d:a:b", "not a tag"),
        ("oci-layout:", "names no folder"),
        ("oci-layout:a@sha256:1", "not a digest"),
    ],
)
def test_what_breaks_the_grammar_is_refused(text: str, what: str) -> None:
    with pytest.raises(PackageReferenceError, match=what) as raised:
        parse_reference(text)

    assert raised.value.reference == text


@pytest.mark.parametrize(
    "text",
    [
        "oci://user:secret@h/d",
        "https://user:secret@h/d.ortpkg",
        "s3://secret@h/d.ortpkg",
        "https://h/d?signature=secret",
        "http://h/d.ortpkg?signature=secret",
    ],
)
def test_a_secret_in_a_reference_is_not_repeated(text: str) -> None:
    with pytest.raises(PackageReferenceError) as raised:
        parse_reference(text)

    assert "secret" not in str(raised.value) + raised.value.reference


def test_a_signed_address_is_used_as_it_is_and_shown_without_the_signature() -> None:
    reference = parse_reference("https://h/d.ortpkg?signature=secret")

    assert isinstance(reference, UrlReference)
    assert reference.url == "https://h/d.ortpkg?signature=secret"
    assert str(reference) == "https://h/d.ortpkg"


def test_a_word_that_is_a_folder_here_is_that_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()

    assert parse_reference("digits") == PathReference(path=Path("digits"))
