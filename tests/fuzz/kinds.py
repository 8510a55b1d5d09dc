"""What is attacked, in batches of how many cases, and what a case may take."""

from __future__ import annotations

import os

#: A case that takes longer hangs: a run may take TIMEOUT_S, and stops between nodes.
HANG_S = float(os.environ.get("ORTPKG_FUZZ_HANG_S", "20"))
TIMEOUT_S = 2.0
MEMORY_LIMIT_NBYTES = 64 << 20
#: For the driver's own tests.
NOTHING = "nothing"
#: Each takes a process for about a quarter of a minute.
BATCHES = {
    "models": 4000,  # random ones
    "mutants": 6000,  # models that run, with changes
    "operators": 4000,  # the onnx package's node cases, with changes
    "shapes": 4000,  # operators with hostile sizes
    "microsoft": 4000,  # those of com.microsoft
    "machine_code": 60,  # random graphs, compiled with bounds checks, held against numpy kernels
    "memory": 500,  # kernels on large inputs: what they take and do not ask for
    "documents": 1000,  # of packages, with changes
    "faults": 500,  # packages on a system that fails
    "authoring": 200,  # packages that are rewritten, damaged or on a disk that fails
    NOTHING: 4000,
}
KINDS = tuple(kind for kind in BATCHES if kind != NOTHING)
