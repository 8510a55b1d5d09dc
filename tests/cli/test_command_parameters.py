"""Groups of options: what typer sees of them, and what a command gets."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ortpkg.cli.command_parameters import with_single_options

WidthOption = Annotated[int, typer.Option("--width", help="Columns.")]


@dataclass(frozen=True)
class _Size:
    width: WidthOption
    height: Annotated[int, typer.Option("--height", help="Rows.")] = 3


@dataclass(frozen=True)
class _Picture(_Size):
    title: Annotated[str, typer.Option("--title")] = "none"


def _draw(
    file: Annotated[str, typer.Argument()],
    *,
    picture: _Picture,
    loud: Annotated[bool, typer.Option("--loud")] = False,
) -> int:
    typer.echo(f"{file} {picture} {loud}")
    return 0


def test_each_field_is_a_parameter_where_the_group_stands() -> None:
    parameters = inspect.signature(with_single_options(_draw)).parameters
    assert list(parameters) == ["file", "width", "height", "title", "loud"]
    assert parameters["width"].annotation is WidthOption
    assert parameters["width"].default is inspect.Parameter.empty
    assert parameters["height"].default == 3
    assert {parameters[name].kind for name in ("width", "title")} == {
        inspect.Parameter.KEYWORD_ONLY
    }


def test_typer_parses_the_fields_and_the_command_gets_the_group() -> None:
    application = typer.Typer()
    application.command()(with_single_options(_draw))

    done = CliRunner().invoke(application, ["f", "--width", "7", "--title", "t", "--loud"])

    assert (done.exit_code, done.output) == (
        0,
        "f _Picture(width=7, height=3, title='t') True\n",
    )
    assert CliRunner().invoke(application, ["f"]).exit_code == 2  # --width has no default


def test_two_parameters_of_one_name_are_refused() -> None:
    def command(*, width: WidthOption = 1, size: _Size) -> int:
        return width + size.width

    command.__annotations__ |= {"size": _Size, "width": WidthOption}
    with pytest.raises(ValueError, match="duplicate parameter name: 'width'"):
        with_single_options(command)


def test_a_group_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(_Size(width=1), "height", 2)  # noqa: B010  # mypy refuses an assignment
