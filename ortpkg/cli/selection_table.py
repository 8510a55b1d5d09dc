"""Selections of several packages on several machines, as a table of packages × machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ortpkg.api.model_package import ModelPackage
from ortpkg.cli.rendering import Output
from ortpkg.runtime.providers.machine_offer import asked_once
from ortpkg.selection.choosing.package_selection import THIS_MACHINE, records_read_once
from ortpkg.selection.matching.reasons import main_verdict
from ortpkg.selection.matching.verdict import Selection

if TYPE_CHECKING:
    from ortpkg.selection.matching.wishes import SelectionWishes


class Choice(NamedTuple):
    """Selection of a component of a package on a machine: one cell of the table.

    Attributes:
        package: Package of the component.
        root: The user's path: the packed file if the package is packed.
        label, machine: Package and machine in words; paths if names are ambiguous.
        selection: The selection.
    """

    package: ModelPackage
    root: Path
    label: str
    machine: str
    selection: Selection


def choose(
    packages: Sequence[ModelPackage],
    roots: Sequence[Path],
    component: str | None,
    profiles: Sequence[str],
    wishes: SelectionWishes,
) -> list[Choice]:
    """Return a selection for each package, component (or the named one) and machine, in this order.

    ``roots`` are the user's paths of the packages.
    """
    words = list(dict.fromkeys(profiles)) or [THIS_MACHINE]
    if words != [THIS_MACHINE]:
        from ortpkg.machine.profiles import read_profile  # only for other machines
    machines = [item if item == THIS_MACHINE else read_profile(item) for item in words]
    names = _unambiguous([item if isinstance(item, str) else item.name for item in machines], words)
    labels = _unambiguous([package.name for package in packages], [str(root) for root in roots])
    with asked_once(), records_read_once():
        return [
            Choice(
                package=package,
                root=root,
                label=label,
                machine=name,
                selection=package.select(of, wishes, profile=machine),
            )
            for package, root, label in zip(packages, roots, labels, strict=True)
            for of in (
                [component]
                if component is not None
                else [item.name for item in package.info.components]
            )
            for machine, name in zip(machines, names, strict=True)
        ]


def place_of(choice: Choice, path: Path) -> Path:
    """Return the user's path of a file of the package.

    In a packed one, below the path of the file.
    """
    is_moved = choice.root != choice.package.root and path.is_relative_to(choice.package.root)
    return choice.root / path.relative_to(choice.package.root) if is_moved else path


def _unambiguous(names: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return each name, or its path if several have the same name."""
    return [
        path if names.count(name) > 1 else name for name, path in zip(names, paths, strict=True)
    ]


def is_table(choices: Sequence[Choice]) -> bool:
    """Return True if there are several packages or machines."""
    return (
        len({id(choice.package) for choice in choices}) > 1
        or len({choice.machine for choice in choices}) > 1
    )


def print_table(choices: Sequence[Choice], output: Output) -> None:
    """Print a row for each package and component, with a column for each machine.

    Warnings follow, each once.
    """
    from ortpkg.cli.table_layout import Column  # only for several packages or machines

    machines = list(dict.fromkeys(choice.machine for choice in choices))
    rows: dict[tuple[int, str], dict[str, Choice]] = {}
    for choice in choices:
        rows.setdefault((id(choice.package), choice.selection.component_name), {})[
            choice.machine
        ] = choice
    lines = [_row(cells, machines) for cells in rows.values()]
    output.table(
        [
            Column("package"),
            Column("component"),
            *(Column(machine, wraps=12) for machine in machines),
        ],
        lines,
    )
    shared = shared_warnings(choices)
    for choice in choices:
        for warning in choice.selection.warnings:
            if warning not in shared:
                output.warning(f"{choice.label} on {choice.machine}: {warning}")
    for warning in shared:
        output.warning(warning)


def shared_warnings(choices: Sequence[Choice]) -> list[str]:
    """Return the warnings that all of several selections have, which are about the package."""
    if len(choices) < 2:
        return []
    common = set.intersection(*(set(choice.selection.warnings) for choice in choices))
    return [warning for warning in choices[0].selection.warnings if warning in common]


def choice_to_json(choice: Choice) -> dict[str, Any]:
    """Return a selection as JSON, with its package."""
    from ortpkg.selection.matching.explanation import selection_to_json  # only for --json

    package = choice.package
    return {
        "package": {"name": package.name, "root": str(choice.root)},
        **selection_to_json(choice.selection),
    }


def _row(cells: Mapping[str, Choice], machines: Sequence[str]) -> tuple[str, ...]:
    first = next(iter(cells.values()))
    return (
        first.label,
        first.selection.component_name,
        *(_cell(cells[machine]) for machine in machines),
    )


def _cell(choice: Choice) -> str:
    """Return for example "cpu-int8: OpenVINO on NPU".

    If nothing fits, it is the reason of the variant that came closest.
    """
    selection = choice.selection
    if selection.best is None:
        return (
            f"none: {main_verdict(selection.verdicts).code}"
            if selection.verdicts
            else "none: no variants"
        )
    ep_device = selection.best.ep_device
    assert ep_device is not None
    where = "" if ep_device.device is None else f" on {ep_device.device.type.value.upper()}"
    return (
        f"{selection.best.variant.name}:"
        f" {ep_device.ep_name.removesuffix('ExecutionProvider')}{where}"
    )
