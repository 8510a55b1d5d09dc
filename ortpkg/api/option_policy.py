"""Which session and provider options of a package take effect: an allow-list, since a package comes from a stranger.

An option that only tunes a computation is allowed; one that writes files, loads libraries or reads paths outside the
package is not, unless the caller trusts the package (docs/trust.md). What is not on a list is refused, not ignored:
dropping an option silently would run something else than the publisher measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.errors import TrustRequiredError, quoted
from ortpkg.package.package_info import VariantInfo
from ortpkg.session.safe_options import SAFE_PROVIDER_OPTIONS, SAFE_SESSION_OPTIONS


def checked_session_options(variant: VariantInfo, *, trust: bool) -> dict[str, str]:
    """The package's session options for ``variant``. TrustRequiredError for one that is not known to be harmless."""
    return _checked(variant, variant.session_options, SAFE_SESSION_OPTIONS, "session option", trust=trust)


def checked_provider_options(variant: VariantInfo, ep_name: str, *, trust: bool) -> dict[str, str]:
    """The package's options for ``ep_name``. TrustRequiredError for one that is not known to be harmless."""
    allowed = SAFE_PROVIDER_OPTIONS.get(ep_name, frozenset())
    return _checked(variant, variant.provider_options, allowed, f"option of {ep_name}", trust=trust)


def _checked(
    variant: VariantInfo, options: Mapping[str, str], allowed: frozenset[str], kind: str, *, trust: bool
) -> dict[str, str]:
    refused = [key for key in options if key not in allowed]
    if refused and not trust:
        raise TrustRequiredError(
            f"variant {quoted(variant.name)} of {quoted(variant.component_name)} sets the {kind} "
            f"{', '.join(quoted(key) for key in refused)}, which can reach beyond the package; "
            f"if you trust its publisher, pass --trust (in Python trust=True)",
            what=refused[0],
        )
    return dict(options)
