"""Watches a partition of a library that neither checks indices nor explains failed runs.

The numpy engine computes the runs that the library refuses, and those with an index out of range:
its result is right, or its error names the node and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.providers.execution_provider import NodeComputeInfo
from ortpkg.runtime.providers.index_guards import PartitionGuards, RefusedRunError
from ortpkg.runtime.providers.library_words import words_of
from ortpkg.runtime.providers.numpy_standby import StandbyPartition


def watched_partition(
    info: NodeComputeInfo, guards: PartitionGuards | None, standby: StandbyPartition | None
) -> NodeComputeInfo:
    """Return a compute info that checks the partition's indices around each run.

    Args:
        info: compute info of the library.
        guards: checks of its indices; None if they cannot be checked.
        standby: the same nodes on the numpy engine; None if it may not stand in: then an index
            out of range and whatever the library raises are errors.
    """

    def compute(state: Any, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        try:
            return watched(state, inputs, context)
        except RefusedRunError as error:
            if standby is None:
                raise
            return standby.compute(inputs, context, error)

    def watched(state: Any, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        if guards is not None:
            guards.verify_inputs(inputs)
        try:
            outputs = info.compute(state, inputs, context)
        except OrtpkgError:
            raise
        except Exception as error:
            pass_on_handlers_error(error)
            raise RefusedRunError(words_of(error)) from error
        return outputs if guards is None else guards.verify_outputs(inputs, outputs)

    return replace(info, compute=compute)
