"""Groups of options: a command takes one parameter for several options of its command line.

A group is a frozen dataclass. Its fields are declared like parameters of a command::

    @dataclass(frozen=True)
    class LoadLimits:
        timeout: Annotated[float, typer.Option("--timeout", metavar="T")] = 600.0
        memory_limit: Annotated[int | None, typer.Option("--memory-limit")] = None

    def command(package: PackageArgument, *, limits: LoadLimits) -> int: ...

typer reads the parameters of a command from its signature, and shows and parses each field like a
parameter of the command itself: at the position of the group, and in the order of the fields, those
of base classes first.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints


def with_single_options(command: Callable[..., int]) -> Callable[..., int]:
    """Return ``command`` with a parameter for each field in place of each group.

    The result takes keyword arguments only, as typer passes them.

    Raises:
        ValueError: Two parameters have one name.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, type[Any]] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }

    @functools.wraps(command)
    def single(**values: Any) -> int:
        for name, group in groups.items():
            options = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**options)
        return command(**values)

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name in groups:
            parameters += _parameters(groups[parameter.name], parameter.kind)
        else:
            parameters.append(parameter)
    described: Any = single
    described.__signature__ = signature.replace(parameters=parameters)
    return single


def _parameters(group: Any, kind: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of a group as parameters of a function."""
    annotations = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name, kind, default=default, annotation=annotations[field.name]
        )
