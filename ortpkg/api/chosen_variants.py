"""Variants that a session on a package runs: that of one component model, or one of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.api.model_variant import ModelVariant
from ortpkg.package.package_info import PackageInfo

if TYPE_CHECKING:
    from ortpkg.runtime.pipelines.pipeline_session import PipelineSession
    from ortpkg.runtime.session.inference_session import InferenceSession


class ChosenVariants(NamedTuple):
    """Result of :meth:`~ortpkg.ModelPackage.choose`.

    Attributes:
        package: the package of the variants.
        variants: component → its variant, in execution order.
        is_pipeline: True if the whole package was asked for, and is a pipeline.
    """

    package: PackageInfo
    variants: Mapping[str, ModelVariant]
    is_pipeline: bool

    def create_session(
        self, create: Callable[[ModelVariant], InferenceSession] = ModelVariant.create_session
    ) -> InferenceSession | PipelineSession:
        """Return a session on the variants: over all of a pipeline, or the only one.

        ``create`` makes the session of one variant.
        """
        sessions = {name: create(variant) for name, variant in self.variants.items()}
        if not self.is_pipeline:
            (session,) = sessions.values()
            return session
        # The pipeline runner imports numpy, which only pipelines need.
        from ortpkg.runtime.pipelines.pipeline_session import PipelineSession

        return PipelineSession(self.package, sessions)
