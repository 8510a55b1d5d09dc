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

from ortpkg.errors.authoring import ArchiveError as ArchiveError
from ortpkg.errors.authoring import AuthoringError as AuthoringError
from ortpkg.errors.authoring import PackageBusyError as PackageBusyError
from ortpkg.errors.base import CancelledError as CancelledError
from ortpkg.errors.base import EpLibraryError as EpLibraryError
from ortpkg.errors.base import LoadCancelledError as LoadCancelledError
from ortpkg.errors.base import OrtpkgError as OrtpkgError
from ortpkg.errors.base import PlanVerificationError as PlanVerificationError
from ortpkg.errors.base import ProfileError as ProfileError
from ortpkg.errors.base import UnknownBackendError as UnknownBackendError
from ortpkg.errors.base import UsageError as UsageError
from ortpkg.errors.batches import ClusterError as ClusterError
from ortpkg.errors.batches import RowFailedError as RowFailedError
from ortpkg.errors.codes import ExitCode as ExitCode
from ortpkg.errors.codes import StatusCode as StatusCode
from ortpkg.errors.codes import VerifyExitCode as VerifyExitCode
from ortpkg.errors.distribution import ArtifactFormatError as ArtifactFormatError
from ortpkg.errors.distribution import ArtifactNotFoundError as ArtifactNotFoundError
from ortpkg.errors.distribution import CredentialsError as CredentialsError
from ortpkg.errors.distribution import LayerMismatchError as LayerMismatchError
from ortpkg.errors.distribution import LockError as LockError
from ortpkg.errors.distribution import PackageNotInstalledError as PackageNotInstalledError
from ortpkg.errors.distribution import PackageReferenceError as PackageReferenceError
from ortpkg.errors.distribution import RegistryAuthenticationError as RegistryAuthenticationError
from ortpkg.errors.distribution import RegistryError as RegistryError
from ortpkg.errors.distribution import RegistryUnreachableError as RegistryUnreachableError
from ortpkg.errors.distribution import SignatureError as SignatureError
from ortpkg.errors.distribution import StoreError as StoreError
from ortpkg.errors.extras import MissingExtraError as MissingExtraError
from ortpkg.errors.extras import missing_library_text as missing_library_text
from ortpkg.errors.finding import MOST_QUOTED_CHARACTERS as MOST_QUOTED_CHARACTERS
from ortpkg.errors.finding import Finding as Finding
from ortpkg.errors.finding import Severity as Severity
from ortpkg.errors.finding import printable as printable
from ortpkg.errors.finding import quoted as quoted
from ortpkg.errors.finding import unquoted as unquoted
from ortpkg.errors.models import AdapterFileError as AdapterFileError
from ortpkg.errors.models import ExternalDataNotFoundError as ExternalDataNotFoundError
from ortpkg.errors.models import InvalidGraphError as InvalidGraphError
from ortpkg.errors.models import KernelNotFoundError as KernelNotFoundError
from ortpkg.errors.models import ModelError as ModelError
from ortpkg.errors.models import ModelFileError as ModelFileError
from ortpkg.errors.models import ModelNotFoundError as ModelNotFoundError
from ortpkg.errors.packages import DigestMismatchError as DigestMismatchError
from ortpkg.errors.packages import NoSuitableVariantError as NoSuitableVariantError
from ortpkg.errors.packages import PackageError as PackageError
from ortpkg.errors.packages import PackageFormatError as PackageFormatError
from ortpkg.errors.packages import PackageNotFoundError as PackageNotFoundError
from ortpkg.errors.packages import PathEscapesPackageError as PathEscapesPackageError
from ortpkg.errors.packages import ResultUnreadableError as ResultUnreadableError
from ortpkg.errors.packages import SelectionError as SelectionError
from ortpkg.errors.packages import StalePackageError as StalePackageError
from ortpkg.errors.packages import StaleVariantError as StaleVariantError
from ortpkg.errors.packages import TrustRequiredError as TrustRequiredError
from ortpkg.errors.packages import UnknownComponentError as UnknownComponentError
from ortpkg.errors.packages import UnsupportedSchemaVersionError as UnsupportedSchemaVersionError
from ortpkg.errors.providers import CompileError as CompileError
from ortpkg.errors.providers import EpContextError as EpContextError
from ortpkg.errors.providers import EpContextWriteError as EpContextWriteError
from ortpkg.errors.providers import ExecutionProviderError as ExecutionProviderError
from ortpkg.errors.providers import NoNodeTakenError as NoNodeTakenError
from ortpkg.errors.providers import UnknownExecutionProviderError as UnknownExecutionProviderError
from ortpkg.errors.secret_texts import forget as forget
from ortpkg.errors.secret_texts import hide as hide
from ortpkg.errors.secret_texts import redacted as redacted
from ortpkg.errors.secret_texts import redacted_answer as redacted_answer
from ortpkg.errors.secret_texts import redacted_quotation as redacted_quotation
from ortpkg.errors.serving import InvalidRequestError as InvalidRequestError
from ortpkg.errors.serving import NotServingError as NotServingError
from ortpkg.errors.serving import RequestTooLargeError as RequestTooLargeError
from ortpkg.errors.serving import ServerBusyError as ServerBusyError
from ortpkg.errors.serving import ServingError as ServingError
from ortpkg.errors.serving import UnauthorizedError as UnauthorizedError
from ortpkg.errors.serving import UnknownModelError as UnknownModelError
from ortpkg.errors.sessions import InvalidFeedError as InvalidFeedError
from ortpkg.errors.sessions import InvalidSessionOptionError as InvalidSessionOptionError
from ortpkg.errors.sessions import LimitExceededError as LimitExceededError
from ortpkg.errors.sessions import RunError as RunError
from ortpkg.errors.sessions import SessionError as SessionError

# Errors are reported and pickled under the name of this module, wherever they are defined.
for _each in tuple(globals().values()):
    if isinstance(_each, type) and issubclass(_each, OrtpkgError):
        _each.__module__ = __name__
