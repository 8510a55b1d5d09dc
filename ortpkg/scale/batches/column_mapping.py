"""Mapping of columns to inputs, by name or as the caller says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean

#: Columns of each input, whose values it takes one after the other.
ColumnMap = Mapping[str, tuple[str, ...]]


def parse_map(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse ``--map input=column`` and ``--map input=a,b,c``.

    Raises:
        UsageError: A text has another form.
    """
    mapping: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, separator, columns = text.partition("=")
        names = tuple(columns.split(","))
        if not separator or not name or not all(names):
            raise UsageError(
                f"--map {quoted(text)}: it takes INPUT=COLUMN, or INPUT=COLUMN,COLUMN,... where"
                " each column is a number of the input"
            )
        if name in mapping:
            raise UsageError(f"--map: input {quoted(name)} is given twice")
        mapping[name] = names
    return mapping


def column_map(
    inputs: Sequence[str], columns: Sequence[str] | None, stated: ColumnMap
) -> ColumnMap:
    """Return the columns that feed each input of the model.

    Inputs that the caller leaves out go by name; a single column feeds a single input, whatever its
    name.

    Args:
        inputs: Names of the model's inputs.
        columns: Columns of the input files; None if every row may have others.
        stated: Mapping that the caller states.

    Raises:
        UsageError: An input or column does not exist, or an input has no column.
    """
    for name in stated:
        if name not in inputs:
            raise UsageError(
                f"--map: the model has no input {quoted(name)}{did_you_mean(name, inputs)}; it has"
                f" {_list(inputs)}"
            )
    if columns is not None and len(columns) == len(inputs) == 1 and not stated:
        return {inputs[0]: (columns[0],)}
    mapping = {name: tuple(stated.get(name, (name,))) for name in inputs}
    if columns is not None:
        for name, wanted in mapping.items():
            for column in wanted:
                _verify_is_there(column, name, columns, is_given=name in stated)
    return mapping


def _verify_is_there(column: str, name: str, columns: Sequence[str], *, is_given: bool) -> None:
    if column in columns:
        return
    has = f"the input has {_list(columns)}"
    if is_given:
        raise UsageError(
            f"--map: there is no column {quoted(column)}{did_you_mean(column, columns)}; {has}"
        )
    raise UsageError(
        f"there is no column {quoted(name)} for the input of that name"
        f"{did_you_mean(name, columns)}; {has}: --map {name}=COLUMN says which feeds it"
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in names) or "none"
