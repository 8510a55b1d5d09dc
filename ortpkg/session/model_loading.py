"""Loads the model of a session: with the tensors that its options give, and the operators that its domains need."""

from __future__ import annotations

from ortpkg.graph.given_tensors import GivenTensors
from ortpkg.graph.model import Model
from ortpkg.graph.model_file import ModelSource
from ortpkg.graph.onnx_reader import load_model
from ortpkg.kernels.custom_ops import is_own_domain, load_installed_ops
from ortpkg.session.options import EXTERNAL_DATA_FOLDER_ENTRY, SessionOptions


def load_for_session(source: ModelSource, options: SessionOptions) -> Model:
    """The model; read again where an installed distribution brings operators for one of its domains.

    Raises LoadCancelledError where the options say so, and as :func:`~ortpkg.graph.onnx_reader.load_model` does.
    """
    model = _loaded(source, options)
    foreign = [domain for domain in model.graph.opset_imports if is_own_domain(domain)]
    is_new = [load_installed_ops(domain) for domain in foreign]
    return _loaded(source, options) if any(is_new) else model


def _loaded(source: ModelSource, options: SessionOptions) -> Model:
    options.check_not_cancelled()
    folder = options.config_entries.get(EXTERNAL_DATA_FOLDER_ENTRY) or None
    return load_model(source, external_data_folder=folder, given=_given_tensors(options))


def _given_tensors(options: SessionOptions) -> GivenTensors:
    return GivenTensors(
        shared={name: value.numpy() for name, value in options.shared_initializers.items()},
        external={name: value.numpy() for name, value in options.external_initializers.items()},
        files=options.external_files,
    )
