"""The stages of a partition's way to machine code, as texts that people ask for.

Imports neither numpy nor onnx: the command line names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

#: Config entry: "1" has a session keep what it takes to tell what its partitions became.
KEEP_TEXT_ENTRY = "ortpkg.llvm_keep_text"


class Stage(StrEnum):
    """What a partition was, in the order in which it became it.

    Attributes:
        TENSOR: the tensor IR, as nodes are lowered to it.
        FUSED: the tensor IR after fusion.
        BLOCKED: the tensor IR with the layouts that are compiled.
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


#: Those whose texts are one for each kernel.
KERNEL_STAGES: tuple[Stage, ...] = (Stage.KERNELS, Stage.LLVM, Stage.ASSEMBLY)
#: What is shown where nobody says which: LLVM's texts are long, and take time to make.
SHOWN_STAGES: tuple[Stage, ...] = (
    Stage.TENSOR,
    Stage.FUSED,
    Stage.BLOCKED,
    Stage.KERNELS,
    Stage.STEPS,
)

#: Stage → name of the partition, or of each kernel → text.
StageTexts = Mapping[Stage, Mapping[str, str]]
