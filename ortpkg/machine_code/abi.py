"""The version of how compiled code is called. Imports nothing: selections ask it."""

from __future__ import annotations

#: Of kernels and the executor; code of another version is not run.
ABI_VERSION = 1
