"""The execution provider of onnxruntime-ggml, in an environment of its own.

It needs an onnxruntime of before 1.31; ``make vendors`` makes the environment.
"""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("onnxruntime_ggml") else ["test_*.py"]
