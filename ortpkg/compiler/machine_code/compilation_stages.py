"""The stages between a partition and its machine code, as texts for people.

Imports neither numpy nor onnx, since the command line lists the stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

#: Config entry: "1" makes a session keep what the texts of its partitions need.
KEEP_TEXT_ENTRY = "ortpkg.llvm_keep_text"


class Stage(StrEnum):
    """Stages of a partition, in the order of compilation.

    Attributes:
        TENSOR: the tensor IR after lowering.
        FUSED: the tensor IR after fusion.
        BLOCKED: the tensor IR in the memory layouts that are compiled.
        KERNELS: each kernel in the loop IR.
        LLVM: each kernel in LLVM IR, before LLVM's own passes.
        ASSEMBLY: each kernel in the instructions of the CPU.
        STEPS: the program: its memory, and which kernels run in which order.
    """

    TENSOR = "tensor"
    FUSED = "fused"
    BLOCKED = "blocked"
    KERNELS = "kernels"
    LLVM = "llvm"
    ASSEMBLY = "assembly"
    STEPS = "steps"


#: Stages with one text for each kernel.
KERNEL_STAGES: tuple[Stage, ...] = (Stage.KERNELS, Stage.LLVM, Stage.ASSEMBLY)
#: Stages shown by default; LLVM's texts are long and take time to make.
SHOWN_STAGES: tuple[Stage, ...] = (
    Stage.TENSOR,
    Stage.FUSED,
    Stage.BLOCKED,
    Stage.KERNELS,
    Stage.STEPS,
)

#: Stage → name of the partition, or of each kernel → text.
StageTexts = Mapping[Stage, Mapping[str, str]]
