"""A variant of the component generation, checked by its reader."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.foundations.documents.frozen import EMPTY, freeze
from ortpkg.package.formats.executor_info import ExecutorInfo
from ortpkg.package.package_info import Constraints, Source, VariantInfo


class CheckedComponentVariant(NamedTuple):
    """Checked content of a variant: everything that making its VariantInfo needs."""

    name: str
    component: str
    component_source: Source
    body: Mapping[str, Any]
    directory: str
    has_directory: bool
    model_path: str | None
    executor_info: ExecutorInfo
    as_written: Constraints
    constraints: Constraints
    facts: Mapping[str, Any]

    @property
    def session_options(self) -> Mapping[str, str]:
        """Session options of the payload for onnxruntime."""
        return self.executor_info.session_options

    @property
    def provider_options(self) -> Mapping[str, str]:
        """Provider options of the payload for onnxruntime."""
        return self.executor_info.provider_options

    def make(self) -> VariantInfo:
        """Return the variant as a value for users."""
        info = self.executor_info
        return VariantInfo(
            name=self.name,
            component_name=self.component,
            directory=Path(self.directory),
            model_path=None if info.model_path is None else Path(info.model_path),
            constraints=self.constraints,
            session_options=freeze(info.session_options),
            provider_options=freeze(info.provider_options),
            executor_info=freeze(info.payloads),
            component_constraints=self.as_written,
            has_directory=self.has_directory,
            metadata=freeze(self.facts.get("metadata", EMPTY)),
            additional_metadata=freeze(self.body.get("additional_metadata")),
            source=self.component_source.below("variants", self.name),
        )
