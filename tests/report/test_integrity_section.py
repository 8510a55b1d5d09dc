"""Digests, signatures and contexts on the page; a package that is broken is described all the same."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import ortpkg
from ortpkg import ModelPackage, ReportWishes
from ortpkg.compiler.machine_code.abi import ABI_VERSION
from ortpkg.foundations.ep_names import REMOVED_EP, removed_ep_text
from ortpkg.package.integrity.verification import verify_package
from ortpkg.report.context_facts import ContextState
from ortpkg.report.sections import integrity_section as module
from ortpkg.report.sections.integrity_section import IntegritySection, integrity_section
from ortpkg.report.sections.section import Status
from ortpkg.runtime.providers.llvm import llvm_execution_provider
from tests.ep_context.compiling import compiled
from tests.ep_context.test_context_trust import signed
from tests.report.conftest import DIGITS
from tests.report.models import save_named_model
from tests.report.pages import Page, page_of
from tests.report.subjects import subject_of


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    save_named_model(tmp_path / "source" / "net.onnx", "net")
    root = tmp_path / "net.ortpackage"
    variant = ortpkg.NewVariant(model=tmp_path / "source" / "net.onnx", name="plain", ep="cpu")
    ortpkg.create(root, [variant])
    return root


def _section(root: Path) -> IntegritySection:
    return integrity_section(subject_of(root))


def test_the_page_counts_what_verify_read(digits_page: Page) -> None:
    report = verify_package(DIGITS)
    expected = f"{report.file_count} files verified; not signed"
    assert expected in digits_page.texts_in("span")
    assert report.package_digest in digits_page.words
    assert f"verified {report.file_count} {report.nbytes}" in digits_page.words


def test_what_is_changed_missing_or_extra_comes_first(package: Path) -> None:
    model = next(package.rglob("*.onnx"))
    model.write_bytes(model.read_bytes() + b"x")
    (package / "<b>\u202e.txt").write_text("more")
    section = _section(package)
    assert section.status is Status.BAD
    assert [(row.path, row.state) for row in section.files[:2]] == [
        (model.relative_to(package).as_posix(), "changed"),
        ("<b>\u202e.txt", "extra"),
    ]
    assert section.headline.endswith("2 files verified, 1 changed, 1 extra; not signed")
    html = ModelPackage(package).report(ReportWishes(graphs=ortpkg.DrawnGraphs.NONE))
    assert "&lt;b&gt;\\u202e.txt" in html
    page_of(html)


def test_beyond_the_budget_is_said_and_verify_reads_all(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_HASHED_NBYTES", 10)
    assert "not read" in _section(package).headline
    whole = integrity_section(replace(subject_of(package), verifies_all=True))
    assert "not read" not in whole.headline


def test_without_digests_the_page_says_so(package: Path) -> None:
    (package / "digests.json").unlink()
    section = _section(package)
    assert section.headline == "Nothing to compare the files with; not signed"
    assert section.status is Status.WARN
    assert section.picture == ""


def test_a_damaged_record_is_a_sentence(package: Path) -> None:
    (package / "digests.json").write_text("{", encoding="utf-8")
    section = _section(package)
    assert "digests.json" in section.problem
    assert section.headline.startswith("Nothing to compare the files with")


def test_a_signature_that_nobody_here_accepts_is_named_by_its_key(
    package: Path, tmp_path: Path
) -> None:
    signed(package, tmp_path, native=False)
    section = _section(package)
    (row,) = section.signatures
    assert (row.where, row.verdict, row.status) == ("model.sig", "not judged", Status.PLAIN)
    assert row.signer.startswith("key ")
    assert "There is no trust policy on this machine" in section.policy
    assert section.headline.endswith("1 signature, of nobody known here")


def test_a_signer_of_the_trust_policy_is_named(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed(package, tmp_path, native=False)
    monkeypatch.setenv("ORTPKG_TRUST_POLICY", str(tmp_path / "trust.toml"))
    section = _section(package)
    assert section.headline.endswith("; signed by publisher")
    assert section.status is Status.GOOD
    assert [(row.verdict, row.detail) for row in section.signatures] == [
        ("accepted", "as publisher")
    ]


def test_a_signature_over_other_files_is_stale(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed(package, tmp_path, native=False)
    (package / "more.txt").write_text("more")
    ortpkg.record_digests(package)
    section = _section(package)
    assert section.headline.endswith("1 signature, over other files")
    assert section.signatures[0].verdict == "stale"
    monkeypatch.setenv("ORTPKG_TRUST_POLICY", str(tmp_path / "trust.toml"))
    refused = _section(package)
    assert refused.status is Status.BAD
    assert "refuses it" in refused.policy


def test_a_policy_that_demands_a_signature_refuses_a_package_without(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed(package, tmp_path, native=False)
    (package / "model.sig").unlink()
    monkeypatch.setenv("ORTPKG_TRUST_POLICY", str(tmp_path / "trust.toml"))
    section = _section(package)
    assert section.headline.endswith("refused by the trust policy")
    assert "has to be signed by 'publisher'" in section.policy


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\x00", b"[" * 100_000])
def test_what_is_no_signature_is_described(package: Path, content: bytes) -> None:
    (package / "model.sig").write_bytes(content)
    (row,) = _section(package).signatures
    assert row.verdict == "stale"
    assert "model.sig" in row.detail


_MADE_HERE = "compiled here, or by a trusted publisher"


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    save_named_model(folder / "net.onnx", "net")
    root = folder / "net.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant(model=folder / "net.onnx", name="plain", ep="cpu")])
    compiled(root)
    compiled(root, is_embedded=True, name="embedded")
    return root


@pytest.fixture
def contexts(compiled_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(compiled_once, tmp_path / "net.ortpackage"))


def test_contexts_that_fit_are_fresh(contexts: Path) -> None:
    section = _section(contexts)
    assert section.headline.endswith("2 of 2 contexts fresh")
    assert [(row.fact.variant, row.fact.location, row.fact.trust) for row in section.contexts] == [
        ("model, plain-llvm", "net_ctx_llvm.bin", _MADE_HERE),
        ("model, embedded", "in the model", _MADE_HERE),
    ]


def test_a_stale_context_names_the_field(contexts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_execution_provider, "ABI_VERSION", 99)
    section = _section(contexts)
    assert section.status is Status.BAD
    assert section.headline.endswith(
        f"2 contexts stale: SDK version was 'machine code ABI {ABI_VERSION}', here it is 'machine"
        " code ABI 99'"
    )
    assert {row.fact.state for row in section.contexts} == {ContextState.STALE}


def test_a_context_whose_file_is_gone_or_damaged_is_described(contexts: Path) -> None:
    binary = next(contexts.rglob("*.bin"))
    content = binary.read_bytes()
    binary.write_bytes(content[: len(content) // 2])
    damaged = _section(contexts).contexts[0]
    assert damaged.fact.state is ContextState.BROKEN
    assert "net_ctx_llvm.bin" in damaged.reason
    binary.unlink()
    gone = _section(contexts).contexts[0]
    assert (gone.fact.location, gone.reason) == (
        "net_ctx_llvm.bin (missing)",
        "its file is not there",
    )


@pytest.mark.parametrize("location", ["../../../etc/passwd", "/etc/passwd", "a\x00b", ""])
def test_a_context_outside_of_the_package_is_not_looked_at(contexts: Path, location: str) -> None:
    path = next(contexts.rglob("*llvm/*.onnx"))
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "ep_cache_context":
                attribute.s = location.encode()
    onnx.save(model, path)
    row = _section(contexts).contexts[0]
    assert row.fact.state is ContextState.BROKEN
    assert row.reason


def test_a_context_of_an_execution_provider_that_is_gone_says_what_to_do(contexts: Path) -> None:
    path = next(contexts.rglob("*llvm/*.onnx"))
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "source":
                attribute.s = REMOVED_EP.encode()
    onnx.save(model, path)
    (row,) = (row for row in _section(contexts).contexts if row.fact.variant.endswith("-llvm"))
    assert row.fact.state is ContextState.BROKEN
    assert row.reason == removed_ep_text(REMOVED_EP)


def test_a_model_with_contexts_that_is_no_model_is_described(contexts: Path) -> None:
    path = next(contexts.rglob("*llvm/*.onnx"))
    model = onnx.load(path, load_external_data=False)
    model.graph.node[0].input.append("nobody makes this")
    onnx.save(model, path)
    (row,) = (row for row in _section(contexts).contexts if row.fact.variant.endswith("-llvm"))
    assert row.fact.state is ContextState.BROKEN
    assert "nobody makes this" in row.reason
