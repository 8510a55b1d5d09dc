"""A package as a callable class of Ray Data: rows in, the same rows with outputs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ortpkg.batches.batch_size import DEFAULT_BATCH_SIZE
from ortpkg.batches.column_mapping import column_map
from ortpkg.batches.model_layout import model_layout
from ortpkg.batches.package_runner import ChosenVariant, PackageRunner, PackageUse
from ortpkg.batches.part_run import RunPlan
from ortpkg.batches.parts import Part
from ortpkg.batches.rows import Column, Rows
from ortpkg.selection.wishes import ANY_VARIANT, SelectionWishes

if TYPE_CHECKING:
    from typing import Unpack

    from ortpkg.selection.wishes import WishedKeywords


class PackageModel:
    """Runs a package on batches of rows; each actor opens it, and chooses, on its own machine.

    Args:
        reference: what :class:`~ortpkg.ModelPackage` takes, a packed package, or an ONNX file. It
            has to mean the same wherever an actor runs: a name in the store or ``oci://...`` is
            installed once on each machine; a path must lead there from all.
        columns: input → the column that feeds it, or several, a number of the input each; what is
            left out goes by name.
        batch_axis: output → 0 where its first dimension is rows, None where it is not; what is left
            out goes by the names of the model's dimensions.
        component: of several component models; left out, all of them, as a pipeline.
        batch_size: rows of one run, whatever the size of the batch that comes.
        threads: of each session; as many as the machine has cores where left out.
        trust: accept options from the package that can reach beyond it.
        canary: first try the variant in a child process; what fails there is not used.
        wishes, keywords: what variants are chosen by, as :meth:`~ortpkg.ModelPackage.select` says.

    Raises what opening the package and making its session raise.

    Example::

        rows = ray.data.read_parquet("rows.parquet")
        rows.map_batches(
            PackageModel, fn_constructor_args=["digits"], compute=ray.data.ActorPoolStrategy(size=4)
        )
    """

    def __init__(
        self,
        reference: str | PathLike[str],
        *,
        columns: Mapping[str, str | Sequence[str]] | None = None,
        batch_axis: Mapping[str, Literal[0] | None] | None = None,
        component: str | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
        threads: int | None = None,
        trust: bool = False,
        canary: bool = False,
        wishes: SelectionWishes = ANY_VARIANT,
        **keywords: Unpack[WishedKeywords],
    ) -> None:
        self._runner = PackageRunner(
            PackageUse(
                reference=fspath(reference),
                component=component,
                wishes=wishes.but("PackageModel", keywords),
                threads=threads,
                trust=trust,
                canary=canary,
            )
        )
        self._batch_size = batch_size
        facts = self._runner.facts
        self._inputs = [each.name for each in facts.inputs]
        self._layout = model_layout(
            facts.inputs,
            facts.outputs,
            batch_size,
            axes=facts.axes,
            stated={name: axis == 0 for name, axis in (batch_axis or {}).items()},
        )
        self._given = {
            name: (each,) if isinstance(each, str) else tuple(each)
            for name, each in (columns or {}).items()
        }

    @property
    def chosen(self) -> tuple[ChosenVariant, ...]:
        """What runs here, and why: a value for each component."""
        return self._runner.chosen

    @property
    def notes(self) -> tuple[str, ...]:
        """What failed here before, and is not used any more."""
        return tuple(self._runner.notes)

    def __call__(self, batch: Mapping[str, Column]) -> dict[str, Column]:
        """The batch with the outputs as columns, and without the columns that were fed.

        Raises RowFailedError for the first row that cannot be run, UsageError for an input without
        a column.
        """
        count = len(next(iter(batch.values()), ()))
        if not count:
            return {}
        fed = column_map(self._inputs, list(batch), self._given)
        taken = {name for each in fed.values() for name in each}
        plan = RunPlan(
            layout=self._layout,
            columns=fed,
            batch_size=self._batch_size,
            kept=tuple(name for name in batch if name not in taken),
        )
        part = Part(number=0, files=("the batch",), first_row=0, file_row=0, count=count)
        rows = Rows(row_ids=np.arange(count, dtype=np.int64), columns=dict(batch))
        return dict[str, Any](self._runner.run(part, rows, plan).columns)
