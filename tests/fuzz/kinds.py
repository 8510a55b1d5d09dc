"""What is attacked, in batches that take a process about a quarter of a minute each."""

from __future__ import annotations

BATCHES = {
    "models": 4000,  # random ones
    "mutants": 6000,  # models that run, with changes
    "operators": 4000,  # the onnx package's node cases, with changes
    "shapes": 4000,  # operators with hostile sizes
    "microsoft": 4000,  # those of com.microsoft
    "documents": 1000,  # of packages, with changes
    "faults": 500,  # packages on a system that fails
    "authoring": 200,  # packages that are rewritten, damaged or on a disk that fails
}
KINDS = tuple(BATCHES)
