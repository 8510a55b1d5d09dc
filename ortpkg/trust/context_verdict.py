"""Whether a session would refuse a variant's compiled context, told before anything is loaded.

A choice needs the answer for every compiled variant, also for those whose files are not here, and
in little time. So it goes by what the package records: the digests of contexts that ``compile``
notes, and digests.json. A session judges the contexts themselves (``context_trust``); who lies here
gains nothing but that error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING

from ortpkg.ep_names import PREPACK_EP, resolve_ep_name
from ortpkg.errors import OrtpkgError, TrustRequiredError
from ortpkg.package.derived_variants import derivation_of, recorded_digests
from ortpkg.package.integrity.digest_check import is_within
from ortpkg.package.integrity.digests import PackageDigests, read_digests
from ortpkg.package.package_info import PackageInfo, VariantInfo
from ortpkg.trust.made_contexts import is_made_here

if TYPE_CHECKING:
    from ortpkg.trust.publisher_trust import PublisherTrust

_REFUSED = (
    "its compiled context is native code that was not made on this machine, and needs --trust, or a"
    " publisher whom the trust policy lets ship such"
)


class ContextVerdicts:
    """Judges the compiled variants of one package.

    Args:
        package: its documents are enough.
        publisher: what its publisher may ship; left out, asked of the package's own signatures.
    """

    def __init__(
        self, package: PackageInfo, publisher: Callable[[], PublisherTrust] | None = None
    ) -> None:
        self._package = package
        self._publisher_of = publisher
        self._digests_of = recorded_digests(package)

    def why_refused(self, variant: VariantInfo) -> str:
        """Say why a session without trust refuses a compiled variant; "" where it does not."""
        ep = variant.constraints.ep
        if self._package.is_bare_model or variant.model_path is None:
            return ""
        if ep is not None and resolve_ep_name(ep) == PREPACK_EP:
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
        if not publisher.digests.isdisjoint(model):  # a context in the model is signed with it
            return ""
        return f"{_REFUSED} ({publisher.why_none})" if publisher.why_none else _REFUSED

    def _files_beside(self, variant: VariantInfo) -> list[str]:
        """Digests of the files in its folder that are neither its model nor a document."""
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
        from ortpkg.trust.publisher_trust import (  # signatures: most contexts were made here
            PublisherTrust,
            publisher_trust,
        )

        try:
            return self._publisher_of() if self._publisher_of else publisher_trust(self._package)
        except OrtpkgError as error:  # a policy that cannot be read, no library for signatures
            return PublisherTrust(why_none=str(error))


def _why_refused_by_session(variant: VariantInfo, package: PackageInfo) -> str:
    """By the contexts themselves, where nothing is recorded of them."""
    from ortpkg.trust.context_trust import check_model_file  # numpy and onnx

    try:
        check_model_file(variant, package, trust=False)
    except TrustRequiredError:
        return _REFUSED
    except OrtpkgError:
        return ""  # what is wrong with the model, a session says
    return ""
