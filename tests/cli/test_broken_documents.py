"""Broken documents, settings and policies, told in our words by every command that reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortpkg.machine import profiles
from tests.authoring.checks.trees import write_tree
from tests.authoring.test_olive_packages import olive_tree
from tests.cli.conftest import DIGITS, RunCommand
from tests.cli.own_words import in_own_words

PROFILE = Path(profiles.__file__).parent / "built_in_profiles" / "plain-server.json"
TINYCHAR = DIGITS.with_name("tinychar.ortpackage")


def _with_wrong_types(value: Any) -> Any:
    """``value`` with each leaf of another type."""
    match value:
        case dict():
            return {key: _with_wrong_types(part) for key, part in value.items()}
        case list():
            return [_with_wrong_types(part) for part in value]
        case str():
            return 7
    return "seven"


def _with_extra_keys(value: Any) -> Any:
    match value:
        case dict():
            return {**{key: _with_extra_keys(part) for key, part in value.items()}, "extra": 1}
        case list():
            return [_with_extra_keys(part) for part in value]
    return value


def _without_leaves(value: Any) -> Any:
    """``value`` without the keys whose values are no objects."""
    if not isinstance(value, dict):
        return value
    return {key: _without_leaves(part) for key, part in value.items() if isinstance(part, dict)}


def _with_wrong_words(value: Any) -> Any:
    """``value`` with each text another: no name of an EP, a kind, a place or a version."""
    match value:
        case dict():
            return {key: _with_wrong_words(part) for key, part in value.items()}
        case list():
            return [_with_wrong_words(part) for part in value]
        case str():
            return "no-such-word!"
    return value


FAULTS: dict[str, Callable[[Any], Any]] = {
    "types": _with_wrong_types,
    "extra keys": _with_extra_keys,
    "missing keys": _without_leaves,
    "words": _with_wrong_words,
    "a list": lambda value: [value],
    "null": lambda value: None,
}
#: Document of a package → the package, and what its command lines begin with beside validate's.
DOCUMENTS = {
    "manifest.json": (DIGITS, ("show", "select", "run", "verify")),
    "models/classifier/metadata.json": (DIGITS, ("show", "select", "run")),
    "samples/samples.json": (DIGITS, ("show", "run")),
    "digests.json": (DIGITS, ("verify", "run")),
    "pipeline.json": (TINYCHAR, ("show", "run", "inspect")),
    "genai_config.json": (DIGITS, ()),
}
_GENAI = {
    "model": {
        "type": "gpt2",
        "context_length": 64,
        "vocab_size": 9,
        "decoder": {"filename": "model.onnx", "head_size": 4, "inputs": {"input_ids": "ids"}},
    },
    "search": {"max_length": 64, "do_sample": False},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_broken_document_is_told_in_our_words(
    ortpkg: RunCommand, tmp_path: Path, document: str, fault: str
) -> None:
    source, commands = DOCUMENTS[document]
    package = Path(shutil.copytree(source, tmp_path / source.name))
    path = package / document
    if path.exists():
        path.write_text(json.dumps(FAULTS[fault](json.loads(path.read_text()))))
    else:
        path = package / "models/classifier/cpu-fp32" / document
        path.write_text(json.dumps(FAULTS[fault](_GENAI)))
    for command in ("validate", *commands):
        done = ortpkg(command, package)
        text = in_own_words(done)
        if command == "validate" and path == package / document and fault == "types":
            assert done.code != 0
            assert document in text


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "document",
    [
        "manifest.json",
        "configs/genai_config.json",
        "models/decoder/metadata.json",
        "models/decoder/cpu/genai_config_overlay.json",
    ],
)
def test_a_broken_document_of_olives_is_told_in_our_words(
    ortpkg: RunCommand, tmp_path: Path, document: str, fault: str
) -> None:
    package = write_tree(tmp_path / "llm.ortpackage", olive_tree("decoder"))
    path = package / document
    path.write_text(json.dumps(FAULTS[fault](json.loads(path.read_text()))))
    for command in ("show", "validate", "select", "migrate-check"):
        in_own_words(ortpkg(command, package))
    in_own_words(ortpkg("convert", package, "--to", "component", "-o", tmp_path / "new"))


@pytest.mark.parametrize(
    "text",
    [
        "policy = 7\nthreads = 'x'\n",
        "trust = 'maybe'\n",
        "extra = 1\n",
        "threads = 0\n",
        "packages = 7\n",
        "[packages]\ndigits = 7\n",
        "[packages.digits]\nextra = 1\n",
        "profiles = [1]\n",
        "[[publisher]]\nextra = 1\n",
        "version = 'x'\n",
        "[=",
    ],
)
def test_a_broken_settings_or_policy_file_is_told_in_our_words(
    ortpkg: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    policy = tmp_path / "trust.toml"
    policy.write_text(text)
    assert "trust.toml" in in_own_words(ortpkg("verify", DIGITS, "--trust-policy", policy))
    (tmp_path / "ortpkg.toml").write_text(text)
    for words in (["settings"], ["select", DIGITS], ["lock"], ["sync"]):
        in_own_words(ortpkg(*words))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_lock_is_told_in_our_words(
    ortpkg: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    assert ortpkg("push", DIGITS, "oci-layout:shop:1.0").code == 0
    (tmp_path / "ortpkg.toml").write_text('[packages]\ndigits = "oci-layout:shop:1.0"\n')
    assert ortpkg("lock").code == 0
    path = tmp_path / "ortpkg.lock"
    path.write_text(json.dumps(FAULTS[fault](json.loads(path.read_text()))))
    for words in (["sync"], ["sync", "--frozen"], ["lock"]):
        done = ortpkg(*words)
        assert done.code != 0
        assert "ortpkg.lock" in in_own_words(done)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_profile_is_told_in_our_words(
    ortpkg: RunCommand, tmp_path: Path, fault: str
) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(FAULTS[fault](json.loads(PROFILE.read_text()))))
    done = ortpkg("select", DIGITS, "--profile", path)
    assert done.code != 0
    assert "machine.json" in in_own_words(done)
