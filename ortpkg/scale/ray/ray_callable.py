"""Package as a callable class for Ray Data: batches of rows in, the same rows with outputs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ortpkg.scale.batches.batch_size import DEFAULT_BATCH_SIZE
from ortpkg.scale.batches.column_mapping import column_map
from ortpkg.scale.batches.model_layout import model_layout
from ortpkg.scale.batches.package_runner import ChosenVariant, PackageRunner, PackageUse
from ortpkg.scale.batches.part_run import RunPlan
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Column, Rows
from ortpkg.selection.matching.wishes import ANY_VARIANT, SelectionWishes

if TYPE_CHECKING:
    from typing import Unpack

    from ortpkg.selection.matching.wishes import SelectionKeywords


class PackageModel:
    """Runner of a package on batches of rows.

    Each actor opens it and selects variants on its own machine.

    Args:
        reference: Reference as for :class:`~ortpkg.ModelPackage`, a packed package, or an ONNX
            file. It must mean the same wherever an actor runs: a name in the store or ``oci://...``
            is installed once on each machine; a path must exist on all.
        columns: Column, or several with one number each, by input; other inputs go by name.
        batch_axis: 0 by output if its first dimension is rows, None if not; other outputs go by the
            names of the model's dimensions.
        component: One of several component models; default: all of them, as a pipeline.
        batch_size: Rows of one run, whatever the size of the batch.
        threads: Threads of each session; default: the machine's number of cores.
        trust: True to accept options of the package that can reach beyond it.
        canary: True to try the variant in a child process first and not use it if it fails.
        wishes, keywords: Options of the selection; see :meth:`~ortpkg.ModelPackage.select`.

    Raises:
        OrtpkgError: The package cannot be opened, or its session cannot be created.

    Example:: rows = ray.data.read_parquet("rows.parquet") rows.map_batches( PackageModel,
    fn_constructor_args=["digits"], compute=ray.data.ActorPoolStrategy(size=4) )
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
        **keywords: Unpack[SelectionKeywords],
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
        self._inputs = [item.name for item in facts.inputs]
        self._layout = model_layout(
            facts.inputs,
            facts.outputs,
            batch_size,
            axes=facts.axes,
            stated={name: axis == 0 for name, axis in (batch_axis or {}).items()},
        )
        self._declared_columns = {
            name: (item,) if isinstance(item, str) else tuple(item)
            for name, item in (columns or {}).items()
        }

    @property
    def chosen(self) -> tuple[ChosenVariant, ...]:
        """Variants that run here, and why, one for each component."""
        return self._runner.chosen

    @property
    def notes(self) -> tuple[str, ...]:
        """Earlier failures here, which are not used any more."""
        return tuple(self._runner.notes)

    def __call__(self, batch: Mapping[str, Column]) -> dict[str, Column]:
        """Return the batch with the outputs as columns, without the columns of the inputs.

        Raises:
            RowFailedError: A row cannot be run; the first one.
            UsageError: An input has no column.
        """
        count = len(next(iter(batch.values()), ()))
        if not count:
            return {}
        fed = column_map(self._inputs, list(batch), self._declared_columns)
        used = {name for names in fed.values() for name in names}
        plan = RunPlan(
            layout=self._layout,
            columns=fed,
            batch_size=self._batch_size,
            kept_columns=tuple(name for name in batch if name not in used),
        )
        part = Part(number=0, files=("the batch",), first_row=0, file_row=0, count=count)
        rows = Rows(row_ids=np.arange(count, dtype=np.int64), columns=dict(batch))
        return dict[str, Any](self._runner.run(part, rows, plan).columns)
