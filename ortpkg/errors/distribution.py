"""What goes wrong between machines: references, registries, stores, signatures."""

from __future__ import annotations

from ortpkg.errors.base import OrtpkgError, UsageError
from ortpkg.errors.codes import ExitCode, StatusCode
from ortpkg.errors.secret_texts import redacted_answer


class PackageReferenceError(UsageError):
    """A text names no package: it breaks the grammar of references (docs/references.md).

    Attributes:
        reference: the text.
    """

    def __init__(self, message: str, *, reference: str) -> None:
        super().__init__(message)
        self.reference = reference


class RegistryError(OrtpkgError):
    """A registry, or the way to it, failed; nothing was installed or published.

    It is made of what a registry said, which may be a secret that it was sent.

    Attributes:
        registry: its host and port, or the folder of a layout.
        status: what it answered with (HTTP), None where it did not answer.
    """

    exit_code = ExitCode.REGISTRY

    def __init__(self, message: str, *, registry: str, status: int | None = None) -> None:
        super().__init__(redacted_answer(message))
        self.registry = redacted_answer(registry)
        self.status = status


class RegistryUnreachableError(RegistryError):
    """The registry did not answer, or the connection broke off.

    It was tried again, as often as that may help.

    Attributes:
        is_lasting: trying again would not help: a certificate that is not trusted, an unknown host.
        is_unconnected: no connection came about at all.
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
        is_helper_unusable: the helper is not installed or gives no answer (it does not start, its
            key chain is locked, it takes too long); what is public can be read without it.
    """

    exit_code = ExitCode.REGISTRY

    def __init__(self, message: str, *, is_helper_unusable: bool = False) -> None:
        super().__init__(message)
        self.is_helper_unusable = is_helper_unusable


class ArtifactNotFoundError(RegistryError):
    """The registry has no such repository, tag, manifest or blob."""

    code = StatusCode.NO_SUCHFILE


class ArtifactFormatError(RegistryError):
    """What the registry holds is no package artifact, or breaks a limit.

    Attributes:
        layer: digest or path of the layer concerned; "" for the manifest itself.
    """

    code = StatusCode.INVALID_ARGUMENT

    def __init__(
        self, message: str, *, registry: str, layer: str = "", status: int | None = None
    ) -> None:
        super().__init__(message, registry=registry, status=status)
        self.layer = redacted_answer(layer)


class LayerMismatchError(ArtifactFormatError):
    """The bytes that arrived are not those that the digest names.

    Attributes:
        expected, actual: digests, ``sha256:<hex>``.
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
        name: the name, with tag or digest where one was asked for.
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
