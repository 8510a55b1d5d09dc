"""Forms of files in which onnxruntime's execution providers keep contexts that name other files."""

from __future__ import annotations

from ortpkg.runtime.ep_context.context_form import ContextForm
from ortpkg.runtime.providers.openvino_container import OPENVINO_FORM

FOREIGN_FORMS: tuple[ContextForm, ...] = (OPENVINO_FORM,)
