"""Load a session's model with the tensors in its options and the operators of its domains."""

from __future__ import annotations

from ortpkg.graph.custom_op_registry import is_custom_domain, load_installed_ops
from ortpkg.graph.given_tensors import GivenTensors
from ortpkg.graph.model import Model
from ortpkg.graph.model_file import ModelSource
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.session.options import EXTERNAL_DATA_FOLDER_ENTRY, SessionOptions


def load_for_session(
    source: ModelSource, options: SessionOptions, *, with_own_links: bool
) -> Model:
    """Load a model; again if an installed distribution brings operators of its domains.

    Args:
        source: a model file, or a serialized model.
        options: options of the session.
        with_own_links: True to read external data behind symbolic links that belong to the user.

    Raises:
        LoadCancelledError: the options' cancellation flag was set.
        OrtpkgError: as :func:`~ortpkg.graph.onnx_reader.load_model`.
    """
    model = _loaded(source, options, with_own_links)
    foreign = [domain for domain in model.graph.opset_imports if is_custom_domain(domain)]
    is_new = [load_installed_ops(domain) for domain in foreign]
    return _loaded(source, options, with_own_links) if any(is_new) else model


def _loaded(source: ModelSource, options: SessionOptions, with_own_links: bool) -> Model:
    options.check_not_cancelled()
    folder = options.config_entries.get(EXTERNAL_DATA_FOLDER_ENTRY) or None
    tensors = _given_tensors(options)
    return load_model(
        source, external_data_folder=folder, with_own_links=with_own_links, replacements=tensors
    )


def _given_tensors(options: SessionOptions) -> GivenTensors:
    return GivenTensors(
        shared={name: value.numpy() for name, value in options.shared_initializers.items()},
        external={name: value.numpy() for name, value in options.external_initializers.items()},
        files=options.external_files,
    )
