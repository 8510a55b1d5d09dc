"""The onnx package's interface of a backend, as ``onnxruntime.backend``: prepare a model, run it.

Source: ``onnx.backend.base``. Imports onnx; ``import ortpkg`` does not import this.
No module of ortpkg imports it.
"""

from __future__ import annotations

from ortpkg.backend.session_backend import BackendRep as BackendRep
from ortpkg.backend.session_backend import is_compatible as is_compatible
from ortpkg.backend.session_backend import prepare as prepare
from ortpkg.backend.session_backend import run_model as run_model
from ortpkg.backend.session_backend import supports_device as supports_device
