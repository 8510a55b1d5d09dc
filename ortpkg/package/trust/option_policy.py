"""Allow-list of package options, because a package is not trusted.

An option that only tunes a computation is allowed. One that writes files, loads libraries or reads
paths outside the package is refused, unless the caller trusts the package (docs/trust.md). Unlisted
options are refused too, not ignored: without an option, something else would run than the publisher
measured.

Two options whose value is a path are allowed if the path stays in the package.

A package that is read by the rules of an onnxruntime release is treated as in that release: what it
refuses is refused, and nothing else. Unlisted options are left out with a warning in the log,
unless the package is trusted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import InvalidSessionOptionError, TrustRequiredError, quoted
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_32
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.formats.executor_info import PATH_SESSION_OPTIONS
from ortpkg.package.package_info import Layout, PackageInfo, VariantInfo
from ortpkg.package.paths.disk_places import is_inside
from ortpkg.package.trust.safe_options import SAFE_SESSION_OPTIONS, unsafe_provider_options
from ortpkg.package.trust.session_option_values import read_as_onnxruntime, read_leniently

_LONGEST_PATH = 4096  # Linux's PATH_MAX; other systems' is less
_log = logging.getLogger(__name__)


def session_options_of(
    variant: VariantInfo, package: PackageInfo, *, trust: bool
) -> dict[str, str]:
    """Return the package's effective session options, as entries of :class:`SessionOptions`.

    Raises:
        TrustRequiredError: An option is not known to be harmless.
        InvalidSessionOptionError: The release by whose rules the package is read refuses an option.
    """
    paths = path_options_of(variant, package, trust=trust)
    others = {
        key: value
        for key, value in variant.session_options.items()
        if key not in PATH_SESSION_OPTIONS
    }
    if package.compat is None:
        unsafe = [key for key in others if key not in SAFE_SESSION_OPTIONS]
        return (
            read_leniently(_checked(variant, others, unsafe, "session option", trust=trust)) | paths
        )
    read = read_as_onnxruntime(variant.session_options, release=package.compat)
    accepted = {key: value for key, value in read.items() if key not in PATH_SESSION_OPTIONS}
    unsafe = [key for key in accepted if key not in SAFE_SESSION_OPTIONS]
    return _filtered(variant, accepted, unsafe, "session option", trust=trust) | paths


def path_options_of(variant: VariantInfo, package: PackageInfo, *, trust: bool) -> dict[str, str]:
    """Return the package's options that are paths, absolute and with links resolved.

    They apply together with the caller's own session options, as in onnxruntime, because a model's
    weights do not move.

    Raises:
        TrustRequiredError: A path leaves the package.
    """
    paths: dict[str, str] = {}
    for key in PATH_SESSION_OPTIONS:
        if value := variant.session_options.get(key):
            if "\0" in value:
                raise InvalidSessionOptionError(
                    f"variant {quoted(variant.name)} sets the session option {quoted(key)} to a"
                    " path with a NUL",
                    key=key,
                )
            real = _real_path(os.path.join(variant.directory, value))  # noqa: PTH118  # an absolute value stays
            if not (trust or _may_read(real, package)):
                raise _needs_trust(variant, [key], "session option")
            paths[key] = real
    return paths


def provider_options_of(
    variant: VariantInfo,
    package: PackageInfo,
    ep_device: EpDevice,
    *,
    trust: bool,
    has_own_options: bool = False,
) -> dict[str, str]:
    """Return the package's options for the EP of ``ep_device``.

    By the rules of onnxruntime's releases they apply only to an EP with devices, and not together
    with the caller's own session options.

    Args:
        variant, package: Variant and package with the options.
        ep_device: Device of the session.
        trust: True to accept options that are not known to be harmless.
        has_own_options: True if the caller has session options of his own.

    Raises:
        TrustRequiredError: An option is not known to be harmless.
        InvalidSessionOptionError: By the rules of 1.32, which refuses them for an EP without
            devices.
    """
    unsafe = unsafe_provider_options(variant.provider_options, ep_device.ep_name)
    if package.compat is None:
        return _checked(
            variant, variant.provider_options, unsafe, f"option of {ep_device.ep_name}", trust=trust
        )
    if has_own_options or not variant.provider_options:
        return {}
    if ep_device.device is None or ep_device.ep_name == CPU_EP:
        if package.compat == ONNXRUNTIME_1_32:
            raise InvalidSessionOptionError(
                f"variant {quoted(variant.name)} has provider options for {ep_device.ep_name},"
                f" which takes none: {package.compat} refuses to make its session without session"
                " options of the caller's",
                key=next(iter(variant.provider_options)),
            )
        return {}
    return _filtered(
        variant, variant.provider_options, unsafe, f"option of {ep_device.ep_name}", trust=trust
    )


def _real_path(path: str) -> str:
    """Return ``path`` with links resolved, unless it is too long for the system to read.

    Resolving looks at each prefix of a path; an untrusted path may have a million of them.
    """
    if len(path) > _LONGEST_PATH:
        path = os.path.normpath(path)
    return path if len(path) > _LONGEST_PATH else os.path.realpath(path)


def _may_read(real: str, package: PackageInfo) -> bool:
    """Return True if an option may name ``real``: inside the package, or in the layout "installed".

    Opening a package of that layout fails if its paths leave it, unless the caller allows that.
    """
    return package.layout is Layout.INSTALLED or is_inside(real, str(package.root))


def _checked(
    variant: VariantInfo,
    options: Mapping[str, str],
    unsafe: Sequence[str],
    kind: str,
    *,
    trust: bool,
) -> dict[str, str]:
    if unsafe and not trust:
        raise _needs_trust(variant, unsafe, kind)
    return dict(options)


def _filtered(
    variant: VariantInfo,
    options: Mapping[str, str],
    unsafe: Sequence[str],
    kind: str,
    *,
    trust: bool,
) -> dict[str, str]:
    left_out = [] if trust else unsafe
    if left_out:
        names = ", ".join(quoted(key) for key in left_out)
        _log.warning(
            "variant %s: the %s %s is left out: the package is not trusted",
            quoted(variant.name),
            kind,
            names,
        )
    return {key: value for key, value in options.items() if key not in left_out}


def _needs_trust(variant: VariantInfo, keys: Sequence[str], kind: str) -> TrustRequiredError:
    return TrustRequiredError(
        f"variant {quoted(variant.name)} of {quoted(variant.component_name)} sets the {kind} "
        f"{', '.join(quoted(key) for key in keys)}, which can reach beyond the package; "
        "if you trust its publisher, pass --trust (in Python trust=True)",
        what=keys[0],
    )
