"""What all documents of a package may hold together, and how often each of them is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.documents.document_limits import DEFAULT_LIMITS
from ortpkg.foundations.documents.document_rules import DOCUMENT_SHAPE
from ortpkg.foundations.documents.finding_collector import MOST_FINDINGS, FindingCollector
from ortpkg.foundations.documents.json_documents import read_counted_json
from ortpkg.foundations.errors import Finding, PackageFormatError, Severity
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_31
from ortpkg.package import counted_documents, reader
from ortpkg.package.counted_documents import (
    CountedDocuments,
    PackageLimits,
    PackageTooLargeError,
)
from ortpkg.package.reader import check_package, open_package
from ortpkg.package.reading_rules import STRICT
from ortpkg.package.rules import UNKNOWN_DEVICE
from tests.package.conftest import WritePackage

VARIANT = {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"model_file": "m.onnx"}}}


def referring(write_package: WritePackage, count: int, variants: int = 1, **more: Any) -> Path:
    """A package whose ``count`` components are all the same document."""
    names = [f"v{number}" for number in range(variants)]
    files: dict[str, Any] = {f"c/{name}/m.onnx": b"" for name in names}
    body = {"variants": dict.fromkeys(names, VARIANT | more)}
    manifest = {
        "schema_version": "1.0",
        "components": {f"a{number}": "c" for number in range(count)},
    }
    return write_package(files | {"c/component.json": body, "manifest.json": manifest})


def error_of(root: Path, **how: Any) -> str:
    with pytest.raises(PackageFormatError) as raised:
        open_package(root, **how)
    return str(raised.value)


def test_a_document_is_read_once_however_many_refer_to_it(
    write_package: WritePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(path: Path | str, **how: Any) -> Any:
        read.append(str(how["document"]))
        return read_counted_json(path, **how)

    monkeypatch.setattr(counted_documents, "read_counted_json", counted)
    package = open_package(referring(write_package, 50))

    assert len(package.components) == 50
    assert read == ["manifest.json", "c/component.json"]


def test_what_cannot_be_read_is_told_of_each_reference_and_read_once(tmp_path: Path) -> None:
    documents = CountedDocuments(DEFAULT_LIMITS, PackageLimits())
    (tmp_path / "d.json").write_text("{")
    for name in ("first", "second"):
        with pytest.raises(PackageFormatError) as raised:
            documents.read(str(tmp_path / "d.json"), document=name)
        assert raised.value.document == name
        (tmp_path / "d.json").write_text("{}")


@pytest.mark.parametrize("compat", [None, ONNXRUNTIME_1_31])
def test_components_are_counted(write_package: WritePackage, compat: str | None) -> None:
    said = error_of(referring(write_package, 10_001), compat=compat)
    assert (
        "manifest.json: with this, the documents of the package hold more than 10,000 component"
        " models" in said
    )
    assert "[ORT002]" in said


@pytest.fixture
def narrow_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package may hold 250 variants and 20,000 values."""
    rules = STRICT._replace(package_limits=PackageLimits(variants=250, values=20_000))
    monkeypatch.setattr(reader, "reading_rules", lambda _compat: rules)


@pytest.mark.usefixtures("narrow_limits")
@pytest.mark.parametrize("form", ["component", "metadata"])
def test_variants_are_counted_over_all_components(write_package: WritePackage, form: str) -> None:
    if form == "component":
        root = referring(write_package, 3, variants=100)
    else:
        variants: dict[str, Any] = {f"v{number}": {} for number in range(100)}
        files = {
            f"models/c{number}/metadata.json": {"model_variants": variants} for number in range(3)
        }
        root = write_package(
            files | {"manifest.json": {"model_name": "m", "component_models": ["c0", "c1", "c2"]}}
        )
    assert "with this, the documents of the package hold more than 250 variants" in error_of(root)


@pytest.mark.usefixtures("narrow_limits")
def test_values_are_counted_again_for_each_reference(write_package: WritePackage) -> None:
    root = referring(write_package, 3, additional_metadata={"x": [[]] * 10_000})
    said = error_of(root)
    assert "more than 20,000 values, each counted as often as its document is referred to" in said


def test_texts_with_commas_are_no_values(write_package: WritePackage) -> None:
    root = referring(write_package, 100, additional_metadata={"x": "," * 100_000})
    assert len(open_package(root).components) == 100


def test_bytes_are_counted_over_all_documents(tmp_path: Path) -> None:
    documents = CountedDocuments(DEFAULT_LIMITS, PackageLimits(nbytes=100))
    for name in ("a", "b"):
        (tmp_path / name).write_text(f'"{60 * "x"}"')
    documents.read(str(tmp_path / "a"), document="a")
    documents.read(str(tmp_path / "a"), document="a")
    with pytest.raises(PackageTooLargeError, match="hold more than 100 bytes"):
        documents.read(str(tmp_path / "b"), document="b")


def test_more_findings_than_anybody_reads_are_only_counted(write_package: WritePackage) -> None:
    bodies = {f"v{number}": {"ep": "Unknown", **VARIANT} for number in range(2500)}
    manifest = {"schema_version": "1.0", "components": {"a": {"variants": bodies}}}
    package, findings = check_package(write_package({"manifest.json": manifest}))
    assert package is None
    assert len(findings) == MOST_FINDINGS
    assert findings[-1].message.endswith(" (and 1,500 more findings, not listed)")


def test_warnings_do_not_hide_an_error() -> None:
    found = FindingCollector()
    had_errors = []
    for number in range(MOST_FINDINGS + 5):
        found.add(UNKNOWN_DEVICE, "d", f"w{number}")
    had_errors.append(found.has_errors)
    found.add(DOCUMENT_SHAPE, "d", "wrong")
    had_errors.append(found.has_errors)
    assert had_errors == [False, True]
    last: Finding = found.findings[-1]
    assert last.severity is Severity.ERROR
    assert last.message == "wrong (and 5 more findings, not listed)"


@pytest.mark.skipif(os.name == "nt", reason="Windows needs a privilege for links")
@pytest.mark.parametrize(
    ("manifest", "compat", "said"),
    [
        (
            {"schema_version": "1.0", "components": {"a": "l0"}},
            None,
            "/components/a: path 'l0' does not exist in '.'",
        ),
        (
            {"schema_version": "1.0", "components": {"a": "l0"}},
            ONNXRUNTIME_1_31,
            "/components/a: path 'l0' does not exist in '.'",
        ),
        (
            {"model_name": "p", "component_models": ["models"]},
            None,
            "'models' has no models/models/metadata.json",
        ),
    ],
    ids=["component", "component-1.31", "metadata"],
)
def test_a_chain_of_links_that_no_system_follows_is_missing(
    write_package: WritePackage, manifest: dict[str, Any], compat: str | None, said: str
) -> None:
    root = write_package({"manifest.json": manifest, "l1500/component.json": {"variants": {}}})
    for number in range(1500):
        (root / f"l{number}").symlink_to(f"l{number + 1}")
    (root / "models").mkdir()
    (root / "models" / "models").symlink_to("../l0")
    assert said in error_of(root, compat=compat)
