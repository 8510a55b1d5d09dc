"""Names and contexts of an execution provider that ortpkg no longer has."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx import helper

import ortpkg
from ortpkg.authoring.rules import model_rules
from ortpkg.cli.app import run as run_command_line
from ortpkg.foundations.errors import (
    EpContextError,
    NoSuitableVariantError,
    Severity,
    StatusCode,
    UnknownExecutionProviderError,
)
from ortpkg.package.reader import open_package
from ortpkg.report.context_facts import ContextState, context_facts
from tests.ep_context.compiling import compiled

ADVICE = (
    "PrepackExecutionProvider is no longer part of ortpkg: compile the plain model again with --ep"
    " llvm, or select another variant"
)


def context_model(folder: Path, source: str) -> Path:
    """A model that is one EPContext node, with its context in the node."""
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
        " g (float[2, 3] x) => (float[2, 3] y) { y = com.microsoft.EPContext(x) }"
    )
    attributes = {
        "main_context": 1,
        "embed_mode": 1,
        "ep_cache_context": b"what it wrote",
        "partition_name": "Prepack__0",
        "source": source,
    }
    proto.graph.node[0].attribute.extend(
        helper.make_attribute(name, value) for name, value in attributes.items()
    )
    folder.mkdir(exist_ok=True)
    onnx.save(proto, folder / "net_ctx.onnx")
    return folder / "net_ctx.onnx"


@pytest.mark.parametrize("source", ["PrepackExecutionProvider", "prepack"])
@pytest.mark.parametrize("providers", [["cpu"], ["llvm"], None])
def test_a_context_model_is_refused_with_what_to_do(
    tmp_path: Path, source: str, providers: list[str] | None
) -> None:
    model = context_model(tmp_path, source)
    with pytest.raises(EpContextError, match=f"partition 'Prepack__0', and {ADVICE}") as caught:
        ortpkg.InferenceSession(model, providers=providers)
    assert (caught.value.code, caught.value.source) == (StatusCode.INVALID_GRAPH, source)


@pytest.fixture
def old_package(package: Path, machine: Path, tmp_path: Path) -> Path:
    """A package as an earlier release made it: a plain variant and a compiled one."""
    del machine
    ortpkg.add_variant(
        package,
        context_model(tmp_path / "old", "PrepackExecutionProvider"),
        variant="plain-prepack",
        ep="PrepackExecutionProvider",
        device="cpu",
        notify=lambda _text: None,
    )
    return package


def test_selection_passes_a_variant_over_and_says_what_to_do(old_package: Path) -> None:
    opened = ortpkg.ModelPackage(old_package)
    assert opened.best_variant().name == "plain"
    (reason,) = {
        each.reason for each in opened.select().verdicts if each.variant.name == "plain-prepack"
    }
    assert reason == ADVICE
    with pytest.raises(NoSuitableVariantError, match=ADVICE):
        opened.create_session(variant="plain-prepack")


@pytest.mark.parametrize("trust", [False, True])
def test_a_variant_for_any_ep_that_holds_such_a_context_is_passed_over(
    package: Path, machine: Path, tmp_path: Path, trust: bool
) -> None:
    del machine
    model = context_model(tmp_path / "old", "PrepackExecutionProvider")
    ortpkg.add_variant(package, model, variant="old", notify=lambda _text: None)
    opened = ortpkg.ModelPackage(package, trust=trust)
    told = f"its model holds a context .*, and {ADVICE}"
    with pytest.raises(NoSuitableVariantError, match=told):
        opened.variant("old").create_session()
    with pytest.raises(NoSuitableVariantError, match=told):
        opened.create_session(variant="old")


@pytest.mark.parametrize("ep", [None, "cpu", "prepack"])
def test_whoever_adds_such_a_context_is_told(package: Path, tmp_path: Path, ep: str | None) -> None:
    model = context_model(tmp_path / "old", "prepack")
    notes: list[str] = []
    ortpkg.add_variant(package, model, variant="old", ep=ep, notify=notes.append)
    assert sum(ADVICE in note for note in notes) == 1


def test_validate_says_the_same(old_package: Path) -> None:
    findings = [each for each in ortpkg.validate(old_package) if ADVICE in each.message]
    assert {each.severity for each in findings} == {Severity.ERROR, Severity.WARNING}
    assert model_rules.CONTEXT_MAKER_REMOVED.id in {each.rule for each in findings}
    assert {"compile the plain" in each.remedy for each in findings} == {True}


def test_a_report_says_the_same(old_package: Path) -> None:
    (fact,) = context_facts(open_package(old_package), trust=False)
    assert (fact.state, fact.reason) == (ContextState.BROKEN, ADVICE)


def test_the_plain_variant_can_be_compiled_again_beside_it(old_package: Path) -> None:
    assert compiled(old_package, variants=["plain"]) == ["model/plain-llvm"]
    ortpkg.remove_variant(old_package, "plain-prepack")
    assert ortpkg.ModelPackage(old_package).best_variant().name == "plain-llvm"
    assert not [each for each in ortpkg.validate(old_package) if each.severity == "error"]


@pytest.mark.parametrize("name", ["PrepackExecutionProvider", "prepack"])
def test_a_session_that_names_it_is_told(model: Path, name: str) -> None:
    with pytest.raises(UnknownExecutionProviderError, match=ADVICE):
        ortpkg.InferenceSession(model, providers=[name], enable_fallback=False)
    with pytest.warns(UserWarning, match=f"{ADVICE}; the session falls back"):
        ortpkg.InferenceSession(model, providers=[name])
    options = ortpkg.SessionOptions()
    options.add_session_config_entry("ortpkg.backend", name)
    with pytest.raises(UnknownExecutionProviderError, match=ADVICE):
        ortpkg.InferenceSession(model, options)


def test_commands_that_name_it_are_told(
    old_package: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled_model = context_model(tmp_path / "other", "prepack")
    for words in (
        ["compile", str(old_package), "--ep", "prepack"],
        ["run", str(old_package), "--ep", "prepack"],
        ["run", str(old_package), "--ep", "PrepackExecutionProvider"],
        ["select", str(old_package), "--ep", "PrepackExecutionProvider"],
        ["cache", "why", str(model), "--ep", "prepack"],
        ["compile-models", "-e", "llvm", "-o", str(tmp_path / "out"), str(compiled_model)],
    ):
        assert run_command_line(words) == (6 if words[0] == "compile-models" else 2)
        assert ADVICE in " ".join(capsys.readouterr().err.split())


def test_it_is_not_among_the_names_that_a_package_may_be_asked_for(
    old_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["select", str(old_package), "--ep", "prepac"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "known are" in message
    assert "repack" not in message.replace("'prepac'", "")
