"""Content of the context cache for a session, and why the session finds nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ortpkg.api.model_variant import ModelVariant
from ortpkg.foundations.errors import ModelError, quoted
from ortpkg.package.formats.model_search import why_no_model
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.trust.option_policy import provider_options_of, session_options_of
from ortpkg.runtime.ep_context.cache_outcome import CacheOutcome
from ortpkg.runtime.providers.ep_registry import ep_known_here
from ortpkg.runtime.session.compile_models import find_ep_device
from ortpkg.runtime.session.explain_context_cache import CacheQuestion, explain_context_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheAnswer:
    """Content of the cache for one session.

    Attributes:
        what: the variant or the model, for people.
        ep_name: EP of the session.
        outcomes: one per partition; None if that EP compiles nothing, so that nothing is cached.
    """

    what: str
    ep_name: str
    outcomes: tuple[CacheOutcome, ...] | None


def explain_variant(
    variant: ModelVariant, package: PackageInfo, *, backend: str = "auto", trust: bool = False
) -> CacheAnswer:
    """Return what a session on a variant would find in the cache.

    Raise as ``create_session`` does.
    """
    verdict = variant.verdict(backend=backend)
    what = f"{variant.component_name}/{variant.name}"
    if variant.model_path is None:
        raise ModelError(f"variant {quoted(variant.name)} {why_no_model(variant.info)}")
    if verdict.ep_device is None:
        return CacheAnswer(what=what, ep_name="any", outcomes=None)
    question = CacheQuestion(
        model=variant.model_path,
        ep_device=verdict.ep_device,
        provider_options=provider_options_of(variant.info, package, verdict.ep_device, trust=trust),
        entries=session_options_of(variant.info, package, trust=trust),
    )
    return _answer(what, question)


def explain_model(model: Path, ep: str, device: str | None = None) -> CacheAnswer:
    """Return what a session on a model file would find in the cache, on an EP of this machine.

    Raises:
        UsageError: an unknown execution provider.
    """
    ep_name = ep_known_here(ep)
    return _answer(
        model.name, CacheQuestion(model=model, ep_device=find_ep_device(ep_name, device))
    )


def _answer(what: str, question: CacheQuestion) -> CacheAnswer:
    outcomes = explain_context_cache(question)
    return CacheAnswer(
        what=what,
        ep_name=question.ep_device.ep_name,
        outcomes=None if outcomes is None else tuple(outcomes),
    )
