"""Behaviours that onnxruntime's Python tests assert, on onnxruntime itself and on ortpkg.

docs/interop.md counts them; those that do not hold here stand there with the reason.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.interop.python_api import options, process, sessions, values
from tests.interop.python_api.behaviour import Behaviour

_ALL = [
    *sessions.behaviour.all,
    *options.behaviour.all,
    *values.behaviour.all,
    *process.behaviour.all,
]
_PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop.md"


def _named(behaviour: Behaviour) -> str:
    return behaviour.name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.interop
@pytest.mark.parametrize("behaviour", _ALL, ids=_named)
def test_onnxruntime_behaves_so(behaviour: Behaviour, folder: Path) -> None:
    behaviour.check(pytest.importorskip("onnxruntime", minversion=behaviour.since), folder)


@pytest.mark.parametrize("behaviour", [each for each in _ALL if not each.missing], ids=_named)
def test_ortpkg_behaves_so_too(behaviour: Behaviour, folder: Path) -> None:
    behaviour.check(importlib.import_module("ortpkg"), folder)


@pytest.mark.parametrize("behaviour", [each for each in _ALL if each.missing], ids=_named)
def test_what_is_said_not_to_hold_does_not(behaviour: Behaviour, folder: Path) -> None:
    module: Any = importlib.import_module("ortpkg")
    with pytest.raises((Exception, pytest.fail.Exception)):  # whatever it is, it does not hold
        behaviour.check(module, folder)


def test_the_page_counts_them() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    missing = [each for each in _ALL if each.missing]
    counted = re.search(r"(\d+) of (\d+) hold", text)
    assert counted is not None
    assert (int(counted[1]), int(counted[2])) == (len(_ALL) - len(missing), len(_ALL))
    for each in missing:
        assert f"| {each.says} | {each.missing} |" in text
