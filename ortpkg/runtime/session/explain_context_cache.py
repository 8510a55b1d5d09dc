"""Explain what the context cache holds for a model on an EP, without compiling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.foundations.errors import InvalidSessionOptionError
from ortpkg.graph.onnx_reader import load_model
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.cache_outcome import CacheOutcome
from ortpkg.runtime.ep_context.ep_context_options import (
    CONTEXT_CACHE,
    EXTERNAL_DATA_FOLDER,
    refused_cache,
)
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.provider_list import (
    create_execution_providers,
    register_execution_providers,
)
from ortpkg.runtime.session.session_state import create_session_state


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheQuestion:
    """A session to look up in the cache.

    Attributes:
        model: path of the model.
        ep_device, provider_options: the device, and the options of its provider.
        entries: config entries of the session.
        cache: value of the config entry ``ortpkg.ep_context_cache``: "1", or a directory.
    """

    model: Path
    ep_device: EpDevice
    provider_options: Mapping[str, str] = field(default_factory=dict)
    entries: Mapping[str, str] = field(default_factory=dict)
    cache: str = "1"


def explain_context_cache(question: CacheQuestion) -> list[CacheOutcome] | None:
    """Return one outcome per partition that the session would compile or find in the cache.

    Returns:
        None if the EP compiles nothing.

    Raises:
        InvalidSessionOptionError: sessions do not use this cache.
        OrtpkgError: any error of creating the session.
    """
    options = SessionOptions()
    for key, value in {**question.entries, CONTEXT_CACHE: question.cache}.items():
        options.add_session_config_entry(key, value)
    if refusal := refused_cache(options.config_entries):
        raise InvalidSessionOptionError(refusal, key=CONTEXT_CACHE)
    devices = [(question.ep_device, question.provider_options)]
    created = create_execution_providers(None, None, devices, None)
    model = load_model(
        question.model, external_data_folder=question.entries.get(EXTERNAL_DATA_FOLDER) or None
    )
    providers = register_execution_providers(created)
    state = create_session_state(model, options, providers, explains_cache=True)
    state.close()
    compiling = [provider for provider in providers if isinstance(provider, CompilingProvider)]
    return (
        [outcome for provider in compiling for outcome in provider.cache_outcomes]
        if compiling
        else None
    )
