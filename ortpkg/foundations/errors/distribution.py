"""Errors of references, registries, stores and signatures."""

from __future__ import annotations

from ortpkg.foundations.errors.base import OrtpkgError, UsageError
from ortpkg.foundations.errors.codes import ExitCode, StatusCode
from ortpkg.foundations.errors.secret_texts import redacted_answer


class PackageReferenceError(UsageError):
    """A text is not a reference to a package; it breaks the grammar (docs/references.md).

    Attributes:
        reference: The text.
    """

    def __init__(self, message: str, *, reference: str) -> None:
        super().__init__(message)
        self.reference = reference


class RegistryError(OrtpkgError):
    """A registry, or the way to it, failed; nothing was installed or published.

    The message may contain text of the registry, which is cleaned of secrets that were sent to it.

    Attributes:
        registry: Its host and port, or the folder of a layout.
        status: HTTP status of its answer, or None without one.
    """

    exit_code = ExitCode.REGISTRY

    def __init__(self, message: str, *, registry: str, status: int | None = None) -> None:
        super().__init__(redacted_answer(message))
        self.registry = redacted_answer(registry)
        self.status = status


class RegistryUnreachableError(RegistryError):
    """The registry did not answer, or the connection broke off, also after useful retries.

    Attributes:
        is_lasting: True if trying again would not help: an untrusted certificate, an unknown host.
        is_unconnected: True if no connection was established at all.
    """

    def __init__(
        self,
        message: str,
        *,
        registry: str,
        is_lasting: bool = False,
        is_unconnected: bool = False,
    ) -> None:
        super().__init__(message, registry=registry)
        self.is_lasting = is_lasting
        self.is_unconnected = is_unconnected


class RegistryAuthenticationError(RegistryError):
    """The registry wants credentials, or those that it got do not allow this."""


class CredentialsError(OrtpkgError):
    """Docker's config file, or a credential helper that it names, cannot be used.

    Attributes:
        is_helper_unusable: True if the helper is not installed or gives no answer (it does not
            start, its key chain is locked, it takes too long); public content can be read without
            it.
    """

    exit_code = ExitCode.REGISTRY

    def __init__(self, message: str, *, is_helper_unusable: bool = False) -> None:
        super().__init__(message)
        self.is_helper_unusable = is_helper_unusable


class ArtifactNotFoundError(RegistryError):
    """The registry has no such repository, tag, manifest or blob."""

    code = StatusCode.NO_SUCHFILE


class ArtifactFormatError(RegistryError):
    """The artifact in the registry is not a valid package, or exceeds a limit.

    Attributes:
        layer: Digest or path of the layer concerned; "" for the manifest itself.
    """

    code = StatusCode.INVALID_ARGUMENT

    def __init__(
        self, message: str, *, registry: str, layer: str = "", status: int | None = None
    ) -> None:
        super().__init__(message, registry=registry, status=status)
        self.layer = redacted_answer(layer)


class LayerMismatchError(ArtifactFormatError):
    """The bytes that arrived do not have the digest that names them.

    Attributes:
        expected, actual: Digests, ``sha256:<hex>``.
    """

    def __init__(
        self, message: str, *, registry: str, layer: str, expected: str, actual: str
    ) -> None:
        super().__init__(message, registry=registry, layer=layer)
        self.expected = expected
        self.actual = actual


class StoreError(OrtpkgError):
    """The store of this machine cannot be used, or has no such package; it is as it was."""

    exit_code = ExitCode.PACKAGE


class PackageNotInstalledError(StoreError):
    """The store has no package of that name, or not that version of it.

    Attributes:
        name: The name, with tag or digest if one was requested.
    """

    code = StatusCode.NO_SUCHFILE

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class SignatureError(OrtpkgError):
    """A signature is missing, wrong, by a key that is not accepted, or over other files."""

    exit_code = ExitCode.TRUST


class LockError(UsageError):
    """A project's lock is out of date, or disagrees with what there is; nothing was changed."""
