"""Arguments that a session is created from, and its parts once it is created."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.foundations.storage.file_stamp import FileStamp
from ortpkg.graph.model import Model
from ortpkg.graph.model_file import ModelSource
from ortpkg.runtime.engine.profiler import Profiler
from ortpkg.runtime.ep_context.context_node import (
    EpContextAttributes,
)
from ortpkg.runtime.ep_context.mapped_context import MappedContext
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.session.added_transformers import OwnTransformers
from ortpkg.runtime.session.environment import global_thread_pool_sizes
from ortpkg.runtime.session.isolated_session import IsolatedSession
from ortpkg.runtime.session.model_loading import load_for_session
from ortpkg.runtime.session.node_args import ModelMetadata, NodeArg
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.session_providers import (
    ProviderRequest,
)
from ortpkg.runtime.session.session_state import (
    SessionState,
)
from ortpkg.runtime.session.values.sparse_tensor import SparseTensor

#: Checks a model's EPContext nodes; returns the context files that may be loaded, already open.
ContextCheck = Callable[[Sequence[EpContextAttributes]], Mapping[Path, MappedContext] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWishes:
    """Arguments of a session, as ``InferenceSession`` takes them.

    Attributes:
        options: the session's own options, as :func:`effective_options` returns them.
    """

    source: ModelSource
    options: SessionOptions
    request: ProviderRequest
    check_contexts: ContextCheck | None = None
    transformers: OwnTransformers | None = None
    is_confined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParts:
    """A session that is ready to run.

    Attributes:
        required, overridable: inputs that must be fed, and those with a default value.
        declared: all inputs, as the model declares them.
        sparse_outputs: see :func:`~ortpkg.runtime.session.sparse_outputs.sparse_outputs_of`.
        state: the planned session, or the child process that holds it.
        is_native: True if native libraries, or another process, run all of it, so that numpy's
            settings and threads do not matter.
        files: files that the model was read from, by absolute path, as they were when opened: its
            own first, then those of its external data, unless the cache of contexts replaced them
            or a child process reads them.
    """

    providers: list[ExecutionProvider]
    state: SessionState | IsolatedSession
    profiler: Profiler | None
    required: list[NodeArg]
    overridable: list[NodeArg]
    declared: list[NodeArg]
    outputs: list[NodeArg]
    sparse_outputs: Mapping[int, SparseTensor] = field(default_factory=dict)
    metadata: ModelMetadata
    is_native: bool
    files: Mapping[Path, FileStamp] = field(default_factory=dict)


def effective_options(requested: SessionOptions | None) -> SessionOptions:
    """Return a copy of a caller's options, with the process's thread numbers if it shares threads.

    Raises:
        TypeError: not session options.
    """
    if not isinstance(requested, SessionOptions | None):
        raise TypeError(
            f"sess_options are SessionOptions, not {type(requested).__name__}; name other arguments"
        )
    options = copy.deepcopy(requested) if requested is not None else SessionOptions()
    options.intra_op_num_threads = max(options.intra_op_num_threads, 0)
    options.inter_op_num_threads = max(options.inter_op_num_threads, 0)
    shared = None if options.use_per_session_threads else global_thread_pool_sizes()
    if shared is not None:
        options.intra_op_num_threads, options.inter_op_num_threads = shared
    return options


def load_wished(wishes: SessionWishes) -> Model:
    """Load the model, anew each time."""
    return load_for_session(wishes.source, wishes.options, with_own_links=not wishes.is_confined)
