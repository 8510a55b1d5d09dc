"""A mistake that onnxruntime answers with an exception is one here, under the same names."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import ortpkg
from tests.interop.python_api.mistakes import MISTAKES

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop.md"
_UNSAID = {"object", "BaseException", "Exception"}


def raised(ort: Any, mistake: str, folder: Path) -> Exception | None:
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            MISTAKES[mistake](ort, folder)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            return error
    return None


def names_of(error: Exception | None) -> set[str]:
    """The names under which a program may catch it.

    Those of onnxruntime's exceptions are equal in both libraries.
    """
    return {each.__name__ for each in type(error).__mro__} - _UNSAID


def told_otherwise() -> set[str]:
    """The mistakes in the first column of the page's table of those that are answered otherwise."""
    text = _PAGE.read_text(encoding="utf-8")
    table = text.partition("| mistake | onnxruntime | here |")[2].partition("\n\n")[0]
    return {row.split("|")[1].strip() for row in table.splitlines()[2:]}


def test_the_page_counts_the_mistakes() -> None:
    counted = re.search(r"(\d+) of (\d+) mistakes", _PAGE.read_text(encoding="utf-8"))
    assert counted is not None
    assert told_otherwise() <= set(MISTAKES)
    assert (int(counted[1]), int(counted[2])) == (
        len(MISTAKES) - len(told_otherwise()),
        len(MISTAKES),
    )


@pytest.mark.interop
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_caught_under_the_names_of_onnxruntime(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime: Any = pytest.importorskip("onnxruntime", minversion="1.31")
    monkeypatch.chdir(tmp_path)
    theirs, ours = (
        raised(onnxruntime, mistake, tmp_path / "theirs"),
        raised(ortpkg, mistake, tmp_path / "ours"),
    )
    is_same = theirs is not None and names_of(theirs) <= names_of(ours)
    assert is_same is (mistake not in told_otherwise()), (theirs, ours)
