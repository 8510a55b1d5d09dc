"""``ortpkg logout``: removes the password of a registry."""

from __future__ import annotations

from ortpkg.cli.parameters import RegistryArgument
from ortpkg.cli.rendering import Output
from ortpkg.distribution.registry.credentials import forget_credentials
from ortpkg.foundations.errors import ExitCode
from ortpkg.package.references.http_addresses import parse_registry_host


def command(
    output: Output,
    registry: RegistryArgument,
) -> int:
    """Forget the password of a registry, in Docker's config file and its helper program."""
    host = parse_registry_host(registry)
    is_forgotten = forget_credentials(host.credentials_key)
    if output.is_json:
        output.json("logout", {"registry": str(host), "forgotten": is_forgotten})
    else:
        output.line(f"logged out of {host}" if is_forgotten else f"nothing was kept for {host}")
    return ExitCode.DONE
