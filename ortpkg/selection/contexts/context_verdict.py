"""Prediction if a session would refuse a variant's compiled context, before anything is loaded.

A selection needs this for every compiled variant, even if its files are not here, and quickly. So
it uses what the package records: the digests of contexts that ``compile`` notes, and digests.json.
A session checks the contexts themselves (``context_trust``), so a false record gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING

from ortpkg.foundations.errors import OrtpkgError, TrustRequiredError
from ortpkg.package.derived_variants import derivation_of, recorded_digests
from ortpkg.package.integrity.digest_check import is_within
from ortpkg.package.integrity.digests import PackageDigests, read_digests
from ortpkg.package.package_info import PackageInfo, VariantInfo
from ortpkg.package.trust.made_contexts import is_made_here

if TYPE_CHECKING:
    from ortpkg.package.trust.publisher_trust import PublisherTrust

_REFUSED = (
    "its compiled context is native code that was not made on this machine, and needs --trust, or a"
    " publisher whom the trust policy lets ship such"
)


class ContextVerdicts:
    """Verdicts on the compiled variants of one package.

    Args:
        package: The package; its documents are enough.
        publisher: Returns what the publisher may ship; default: by the package's own signatures.
    """

    def __init__(
        self, package: PackageInfo, publisher: Callable[[], PublisherTrust] | None = None
    ) -> None:
        self._package = package
        self._publisher_of = publisher
        self._digests_of = recorded_digests(package)

    def why_refused(self, variant: VariantInfo) -> str:
        """Return why a session without trust refuses a compiled variant, or ""."""
        if self._package.is_bare_model or variant.model_path is None:
            return ""
        derivation = derivation_of(variant)
        if derivation is not None:
            return self._judged(variant, derivation.contexts)
        if variant.is_absent:
            return self._judged(variant, self._files_beside(variant))
        return _why_refused_by_session(variant, self._package)

    def _judged(self, variant: VariantInfo, contexts: Collection[str]) -> str:
        if all(map(is_made_here, contexts)) and (contexts or derivation_of(variant) is not None):
            return ""
        assert variant.model_path is not None
        publisher, model = self._publisher, self._digests_of(variant.model_path)
        if publisher.digests.issuperset(contexts) and contexts:
            return ""
        if not publisher.digests.isdisjoint(model):  # the model's signature covers a context in it
            return ""
        return f"{_REFUSED} ({publisher.why_none})" if publisher.why_none else _REFUSED

    def _files_beside(self, variant: VariantInfo) -> list[str]:
        """Return digests of the files in its folder that are neither its model nor a document."""
        if self._recorded is None or not variant.directory.is_relative_to(self._package.root):
            return []
        folder = variant.directory.relative_to(self._package.root).as_posix()
        return [
            file.digests[-1]
            for path, file in self._recorded.files.items()
            if is_within(path, {folder}) and not path.endswith((".json", ".onnx"))
        ]

    @cached_property
    def _recorded(self) -> PackageDigests | None:
        return read_digests(self._package.root)

    @cached_property
    def _publisher(self) -> PublisherTrust:
        from ortpkg.package.trust.publisher_trust import (  # signatures: seldom needed
            PublisherTrust,
            publisher_trust,
        )

        try:
            return self._publisher_of() if self._publisher_of else publisher_trust(self._package)
        # for example an unreadable policy, or no library for signatures
        except OrtpkgError as error:
            return PublisherTrust(why_none=str(error))


def _why_refused_by_session(variant: VariantInfo, package: PackageInfo) -> str:
    """Check the contexts themselves, because nothing is recorded of them."""
    from ortpkg.selection.contexts.context_trust import check_model_file  # numpy and onnx

    try:
        check_model_file(variant, package, trust=False)
    except TrustRequiredError:
        return _REFUSED
    except OrtpkgError:
        return ""  # a session reports what is wrong with the model
    return ""
