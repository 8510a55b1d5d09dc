"""Which columns feed which input: by name, or as the caller says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.errors import UsageError, quoted
from ortpkg.names import did_you_mean

#: Input → the columns whose values it takes, one after the other.
ColumnMap = Mapping[str, tuple[str, ...]]


def parse_map(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What ``--map input=column`` and ``--map input=a,b,c`` say. UsageError for anything else."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, separator, columns = text.partition("=")
        names = tuple(columns.split(","))
        if not separator or not name or not all(names):
            raise UsageError(
                f"--map {quoted(text)}: it takes INPUT=COLUMN, or INPUT=COLUMN,COLUMN,... where"
                " each column is a number of the input"
            )
        if name in found:
            raise UsageError(f"--map: input {quoted(name)} is given twice")
        found[name] = names
    return found


def column_map(inputs: Sequence[str], columns: Sequence[str] | None, given: ColumnMap) -> ColumnMap:
    """Which columns of the rows feed each input of the model.

    Args:
        inputs: names of the model's inputs.
        columns: what the input files have; None where every row may have others.
        given: what the caller says; what he leaves out goes by name, and an only column feeds an
            only input, whatever it is called.

    Raises UsageError for an input or column that is not there, and an input without one.
    """
    for name in given:
        if name not in inputs:
            raise UsageError(
                f"--map: the model has no input {quoted(name)}{did_you_mean(name, inputs)}; it has"
                f" {_list(inputs)}"
            )
    if columns is not None and len(columns) == len(inputs) == 1 and not given:
        return {inputs[0]: (columns[0],)}
    found = {name: tuple(given.get(name, (name,))) for name in inputs}
    if columns is not None:
        for name, wanted in found.items():
            for column in wanted:
                _verify_is_there(column, name, columns, is_given=name in given)
    return found


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
