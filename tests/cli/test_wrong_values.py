"""Wrong values of options, told in our words.

Those of the libraries that read them change with their releases: typer reads numbers by pydantic from
0.29 on.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Iterator
from enum import StrEnum

import pytest
from typer.models import ParameterInfo

from ortpkg.cli.app import COMMANDS
from tests.cli.conftest import RunCommand
from tests.cli.own_words import in_own_words


def _typed_values() -> Iterator[tuple[str, str, type, bool]]:
    """(command, name on the command line, type, whether an option) of numbers and words."""
    for command, module in COMMANDS.items():
        hints = typing.get_type_hints(importlib.import_module(module).command, include_extras=True)
        for name, hint in hints.items():
            if typing.get_origin(hint) is not typing.Annotated:
                continue
            base, *notes = typing.get_args(hint)
            kinds = [base, *typing.get_args(base)]
            kinds += [kind for part in kinds for kind in typing.get_args(part)]
            info = next((note for note in notes if isinstance(note, ParameterInfo)), None)
            for kind in kinds:
                if info and (kind in (int, float) or kind in StrEnum.__subclasses__()):
                    names = [
                        getattr(info, "default", None),
                        *(getattr(info, "param_decls", None) or ()),
                    ]
                    options = [text for text in names if str(text).startswith("--")]
                    yield command, options[0] if options else name, kind, bool(options)


TYPED_VALUES = list(_typed_values())


def test_there_are_numbers_and_words() -> None:
    assert {kind for _, _, kind, _ in TYPED_VALUES} > {int, float}
    assert ("serve", "--port", int, True) in TYPED_VALUES
    assert ("samples", "action") in [typed[:2] for typed in TYPED_VALUES]


@pytest.mark.parametrize(("command", "name", "kind", "is_option"), TYPED_VALUES, ids=str)
def test_a_wrong_value_is_told_in_our_words(
    ortpkg: RunCommand, command: str, name: str, kind: type, is_option: bool
) -> None:
    for value in ("q", "", "1.5.2", "nan"):
        done = ortpkg(command, *([f"{name}={value}"] if is_option else [value]))
        assert done.code == 2
        assert f"'{value}' is no" in in_own_words(done)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run x --threads 1.5", "'1.5' is no whole number from 1 to 4096"),
        ("run x --threads 5000", "'5000' is no whole number from 1 to 4096"),
        ("run x --seed=-1", "'-1' is no whole number of 0 or more"),
        ("run x --min-offload 100.5", "'100.5' is no number from 0 to 100"),
        ("run x --min-offload=-0.5", "'-0.5' is no number from 0 to 100"),
        ("select x --max-error inf", "'inf' is no number;"),
        (f"bench x --repeat {'9' * 5000}", "is no whole number of 1 or more"),
        ("bench x --batch-rows 8 --batch-rows 0", "'0' is no whole number from 1 to 100000"),
        ("serve x --port 65536", "'65536' is no whole number from 0 to 65535"),
        ("validate x --format jsn", "'jsn' is not text, json or sarif (did you mean 'json'?)"),
        ("quarantine cler", "'cler' is not list or clear (did you mean 'clear'?)"),
    ],
)
def test_a_wrong_value_is_told_with_what_would_be_right(
    ortpkg: RunCommand, words: str, said: str
) -> None:
    done = ortpkg(*words.split())
    assert done.code == 2
    assert said in in_own_words(done)


def test_a_missing_word_is_asked_for_on_one_line(ortpkg: RunCommand) -> None:
    done = ortpkg("samples")
    assert done.code == 2
    assert "add|record" in in_own_words(done)
    assert "\\t" not in done.err
