"""All exceptions of ortpkg; other names that their signatures need are re-exported here.

There is one class for each way in which a caller can react. Every error has a ``code`` (ONNX
Runtime's status name, so that code written for onnxruntime can branch the same way) and an
``exit_code`` (what the command line returns). It is also an instance of onnxruntime's exception for
that status (``onnxruntime_exceptions.py``), and of the built-in exceptions and further statuses
that onnxruntime raises in the same situation, if these differ.

Texts that come from a package are untrusted. Put them into a message through :func:`quoted`, which
escapes control characters, so that they cannot control a terminal or a log.

Other folders may import: what is imported here, and ``onnxruntime_exceptions``.
"""

from __future__ import annotations

from ortpkg.foundations.errors.authoring import ArchiveError as ArchiveError
from ortpkg.foundations.errors.authoring import AuthoringError as AuthoringError
from ortpkg.foundations.errors.authoring import PackageBusyError as PackageBusyError
from ortpkg.foundations.errors.base import CancelledError as CancelledError
from ortpkg.foundations.errors.base import EpLibraryError as EpLibraryError
from ortpkg.foundations.errors.base import LoadCancelledError as LoadCancelledError
from ortpkg.foundations.errors.base import OrtpkgError as OrtpkgError
from ortpkg.foundations.errors.base import PlanVerificationError as PlanVerificationError
from ortpkg.foundations.errors.base import ProfileError as ProfileError
from ortpkg.foundations.errors.base import UnknownBackendError as UnknownBackendError
from ortpkg.foundations.errors.base import UsageError as UsageError
from ortpkg.foundations.errors.batches import ClusterError as ClusterError
from ortpkg.foundations.errors.batches import RowFailedError as RowFailedError
from ortpkg.foundations.errors.codes import ExitCode as ExitCode
from ortpkg.foundations.errors.codes import StatusCode as StatusCode
from ortpkg.foundations.errors.codes import VerifyExitCode as VerifyExitCode
from ortpkg.foundations.errors.distribution import ArtifactFormatError as ArtifactFormatError
from ortpkg.foundations.errors.distribution import ArtifactNotFoundError as ArtifactNotFoundError
from ortpkg.foundations.errors.distribution import CredentialsError as CredentialsError
from ortpkg.foundations.errors.distribution import LayerMismatchError as LayerMismatchError
from ortpkg.foundations.errors.distribution import LockError as LockError
from ortpkg.foundations.errors.distribution import (
    PackageNotInstalledError as PackageNotInstalledError,
)
from ortpkg.foundations.errors.distribution import PackageReferenceError as PackageReferenceError
from ortpkg.foundations.errors.distribution import (
    RegistryAuthenticationError as RegistryAuthenticationError,
)
from ortpkg.foundations.errors.distribution import RegistryError as RegistryError
from ortpkg.foundations.errors.distribution import (
    RegistryUnreachableError as RegistryUnreachableError,
)
from ortpkg.foundations.errors.distribution import SignatureError as SignatureError
from ortpkg.foundations.errors.distribution import StoreError as StoreError
from ortpkg.foundations.errors.extras import MissingExtraError as MissingExtraError
from ortpkg.foundations.errors.extras import missing_library_text as missing_library_text
from ortpkg.foundations.errors.finding import MOST_QUOTED_CHARACTERS as MOST_QUOTED_CHARACTERS
from ortpkg.foundations.errors.finding import Finding as Finding
from ortpkg.foundations.errors.finding import Severity as Severity
from ortpkg.foundations.errors.finding import printable as printable
from ortpkg.foundations.errors.finding import quoted as quoted
from ortpkg.foundations.errors.finding import unquoted as unquoted
from ortpkg.foundations.errors.models import AdapterFileError as AdapterFileError
from ortpkg.foundations.errors.models import ExternalDataNotFoundError as ExternalDataNotFoundError
from ortpkg.foundations.errors.models import InvalidGraphError as InvalidGraphError
from ortpkg.foundations.errors.models import KernelNotFoundError as KernelNotFoundError
from ortpkg.foundations.errors.models import ModelError as ModelError
from ortpkg.foundations.errors.models import ModelFileError as ModelFileError
from ortpkg.foundations.errors.models import ModelNotFoundError as ModelNotFoundError
from ortpkg.foundations.errors.packages import DigestMismatchError as DigestMismatchError
from ortpkg.foundations.errors.packages import NoSuitableVariantError as NoSuitableVariantError
from ortpkg.foundations.errors.packages import PackageError as PackageError
from ortpkg.foundations.errors.packages import PackageFormatError as PackageFormatError
from ortpkg.foundations.errors.packages import PackageNotFoundError as PackageNotFoundError
from ortpkg.foundations.errors.packages import PathEscapesPackageError as PathEscapesPackageError
from ortpkg.foundations.errors.packages import ResultUnreadableError as ResultUnreadableError
from ortpkg.foundations.errors.packages import SelectionError as SelectionError
from ortpkg.foundations.errors.packages import StalePackageError as StalePackageError
from ortpkg.foundations.errors.packages import StaleVariantError as StaleVariantError
from ortpkg.foundations.errors.packages import TrustRequiredError as TrustRequiredError
from ortpkg.foundations.errors.packages import UnknownComponentError as UnknownComponentError
from ortpkg.foundations.errors.packages import (
    UnsupportedSchemaVersionError as UnsupportedSchemaVersionError,
)
from ortpkg.foundations.errors.providers import CompileError as CompileError
from ortpkg.foundations.errors.providers import EpContextError as EpContextError
from ortpkg.foundations.errors.providers import EpContextWriteError as EpContextWriteError
from ortpkg.foundations.errors.providers import ExecutionProviderError as ExecutionProviderError
from ortpkg.foundations.errors.providers import NoNodeTakenError as NoNodeTakenError
from ortpkg.foundations.errors.providers import (
    UnknownExecutionProviderError as UnknownExecutionProviderError,
)
from ortpkg.foundations.errors.secret_texts import forget as forget
from ortpkg.foundations.errors.secret_texts import hide as hide
from ortpkg.foundations.errors.secret_texts import redacted as redacted
from ortpkg.foundations.errors.secret_texts import redacted_answer as redacted_answer
from ortpkg.foundations.errors.secret_texts import redacted_quotation as redacted_quotation
from ortpkg.foundations.errors.serving import InvalidRequestError as InvalidRequestError
from ortpkg.foundations.errors.serving import NotOfferedError as NotOfferedError
from ortpkg.foundations.errors.serving import NotServingError as NotServingError
from ortpkg.foundations.errors.serving import RequestTooLargeError as RequestTooLargeError
from ortpkg.foundations.errors.serving import ServerBusyError as ServerBusyError
from ortpkg.foundations.errors.serving import ServingError as ServingError
from ortpkg.foundations.errors.serving import UnauthorizedError as UnauthorizedError
from ortpkg.foundations.errors.serving import UnknownModelError as UnknownModelError
from ortpkg.foundations.errors.sessions import InvalidFeedError as InvalidFeedError
from ortpkg.foundations.errors.sessions import (
    InvalidSessionOptionError as InvalidSessionOptionError,
)
from ortpkg.foundations.errors.sessions import LimitExceededError as LimitExceededError
from ortpkg.foundations.errors.sessions import RunError as RunError
from ortpkg.foundations.errors.sessions import SessionError as SessionError

# Errors are reported and pickled under the name of this module, wherever they are defined.
for _value in tuple(globals().values()):
    if isinstance(_value, type) and issubclass(_value, OrtpkgError):
        _value.__module__ = __name__
