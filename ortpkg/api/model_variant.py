"""Façade of a variant: its facts, the reasons for choosing it, and a session for it."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import (
    ModelError,
    ModelFileError,
    NoSuitableVariantError,
    StaleVariantError,
    TrustRequiredError,
    quoted,
)
from ortpkg.package.derived_variants import (
    compiled_unseen,
    current_digests,
    is_derived,
    source_of,
    why_stale,
)
from ortpkg.package.formats.executor_info import ORT
from ortpkg.package.formats.model_search import why_no_model
from ortpkg.package.package_info import Constraints, PackageInfo, VariantInfo, version_of
from ortpkg.package.removed_variants import removal_explained
from ortpkg.selection.matching.reasons import verify_trusted
from ortpkg.selection.matching.request import backend_named
from ortpkg.selection.matching.verdict import Selection, Verdict

if TYPE_CHECKING:
    from ortpkg.foundations.storage.hashing import Progress
    from ortpkg.machine.hardware import EpDevice
    from ortpkg.package.trust.package_verification import Verification
    from ortpkg.runtime.providers.onnxruntime_args import OnnxRuntimeArgs
    from ortpkg.runtime.session.added_transformers import OwnTransformers
    from ortpkg.runtime.session.inference_session import InferenceSession
    from ortpkg.runtime.session.options import RunOptions, SessionOptions


class ModelVariant:
    """One variant of a component model; read-only and picklable.

    Attributes:
        info: the package's data of the variant.
        selection: the selection that was made with it (on this machine, or as requested).
        verification: result of its last comparison with digests.json, by :meth:`verify` or for a
            session; None if there was none.

    Example::

        variant = ortpkg.ModelPackage("digits.ortpackage").best_variant()
        print(variant.name, variant.verdict().reason)
        session = variant.create_session()
    """

    def __init__(
        self,
        info: VariantInfo,
        selection: Selection,
        *,
        package: PackageInfo,
        trust: bool = False,
        tried: Verdict | None = None,
    ) -> None:
        self.info = info
        self.selection = selection
        self.verification: Verification | None = None
        self._package = package
        self._trust = trust
        #: Verdict on the EP device on which it has just run in a child process.
        self._tried = tried

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the try, which is not valid in another process."""
        return {**self.__dict__, "_tried": None}

    @property
    def name(self) -> str:
        """Name of the variant, unique in its component model."""
        return self.info.name

    @property
    def component_name(self) -> str:
        """Name of its component model."""
        return self.info.component_name

    @property
    def directory(self) -> Path:
        """Absolute directory of its files."""
        return self.info.directory

    @property
    def model_path(self) -> Path | None:
        """Absolute path of its ONNX file; None for a GenAI variant, which is a set of files."""
        return self.info.model_path

    @property
    def constraints(self) -> Constraints:
        """Requirements on a machine, as the package states them."""
        return self.info.constraints

    @property
    def version(self) -> str | None:
        """Its own version, if packages of several versions were merged, else the package's."""
        return version_of(self.info, self._package)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Facts in the package about it: data types, quantization, opset, ..."""
        return self.info.metadata

    def eligible_verdicts(self) -> list[Verdict]:
        """Return the verdicts on EP devices on which it can run here, the best first."""
        own = [
            verdict
            for verdict in self.selection.verdicts
            if verdict.variant == self.info and verdict.is_eligible
        ]
        return sorted(own, key=lambda verdict: verdict.rank or ())

    def verdict(self, *, backend: str = "auto") -> Verdict:
        """Return the best verdict on ``backend`` ("auto": on any).

        For a variant that was selected for another machine (``profile=``), it comes from a
        selection on this one.

        Raises:
            NoSuitableVariantError: it can run nowhere here; the message has every reason.
            UsageError: an unknown backend.
        """
        if self.selection.machine:
            return self._on_this_machine().verdict(backend=backend)
        if backend != "auto":
            # raises for an unknown name
            backend_named(backend, self.selection.ep_devices)
        best = self.selection.best
        if best is not None and best.variant == self.info and _is_on(best, backend):
            return best
        for verdict in self.eligible_verdicts():
            if _is_on(verdict, backend):
                return verdict
        self.verify_needs_no_trust()
        reasons = "\n".join(_reasons_against(self.selection, self.info, backend))
        on = "" if backend == "auto" else f" on backend {quoted(backend)}"
        raise NoSuitableVariantError(
            f"variant {quoted(self.name)} cannot run on this machine{on}:\n{reasons}",
            selection=self.selection,
        )

    def verify(self, *, progress: Progress | None = None) -> Verification:
        """Compare the files that a session on it loads with digests.json.

        Files that an earlier session read, and that have not changed since, are not read again.
        ``ortpkg.verify`` checks all files of the package.

        Raises:
            DigestMismatchError: a file is not as recorded; see ``file``, ``expected`` and
                ``actual``.
            PackageFormatError: digests.json is not valid.
        """
        from ortpkg.package.trust.package_verification import (
            PackageVerifier,  # hashlib takes as long to import as opening a package
        )

        self.verification = PackageVerifier(self._package, progress=progress).verify_variant(
            self.info
        )
        return self.verification

    def create_session(
        self,
        sess_options: SessionOptions | None = None,
        *,
        backend: str = "auto",
        verify: bool | None = None,
        isolate: bool = False,
        limits: RunOptions | None = None,
        cache: bool = False,
        threads: int | None = None,
        transformers: OwnTransformers | None = None,
        allow_fallback: bool | None = None,
    ) -> InferenceSession:
        """Return an inference session on the EP device that selection found for this variant.

        Args:
            sess_options: your own options, which replace the package's session options, except for
                the folder of the model's weights and the file of its compiled context if you name
                none. None: the package's, as far as the option policy allows.
            backend: "auto" (the one that ``ortpkg bench`` recorded here as fastest and accurate,
                else the one known to be fastest), "embedded", "openvino" or "onnxruntime".
            verify: True to compare the files that it loads with digests.json first. A package
                without one is not refused: ``verification`` and the selection's warnings say that
                it is unverified. None: True, unless the package is read by the rules of a release,
                which has no digests.
            isolate: True to run onnxruntime, OpenVINO and plug-ins in a child process, see
                :class:`~ortpkg.InferenceSession`.
            limits: memory and time of runs, and of loading if it is isolated, unless the session
                options have limits; also the time of comparing files.
            cache: True to store what an EP compiles for later sessions, under the cache directory
                (``ortpkg cache``).
            threads: number of threads within an operator, whatever the package says, unless
                ``sess_options`` are given.
            transformers: graph transformers and rewrite rules of your own, see
                :class:`~ortpkg.InferenceSession`.
            allow_fallback: True to let others run the model if the execution provider takes no node
                of it, or its device is gone; otherwise that is an error if the variant, the
                selection or ``backend`` names what is to run it. None: True if ``sess_options``
                have the entry ``session.disable_cpu_ep_fallback`` as "0".

        Raises:
            DigestMismatchError: a file that it loads is not as digests.json records it.
            LimitExceededError: isolated, the model takes more to load than its limits allow; or its
                files take longer to compare.
            ModelError: there is no model: the variant is a GenAI variant, a set of files, or names
                none.
            StaleVariantError: it was made of another model than the one beside it.
            NoSuitableVariantError: it cannot run here.
            ExecutionProviderError: the execution provider failed, or takes no node of the model and
                ``allow_fallback`` does not let others run it; or the variant was compiled for an
                absent device, and failed its first try here, in a child process.
            InvalidSessionOptionError: a session option of the package has an impossible value.
            TrustRequiredError: the package sets an option that needs trust, or the variant has a
                native context that was not compiled on this machine.
        """
        from ortpkg.runtime.session.named_providers import options_allow_fallback  # as in _session

        with removal_explained(self._package, self.info):
            path = self._runnable_path()
            self._check_source()
            verdict = self.verdict(backend=backend)
            make_options = partial(self._session_options, sess_options, threads)
            make = partial(
                self._session,
                path,
                verdict,
                sess_options=sess_options,
                isolate=isolate,
                limits=limits,
                cache=cache,
                transformers=transformers,
                allow_fallback=options_allow_fallback(sess_options)
                if allow_fallback is None
                else allow_fallback,
                is_named=self._names_what_runs(backend),
            )
            if not (verify if verify is not None else self._package.compat is None):
                self._try_first_use(verdict)
                return make(make_options())
            from ortpkg.package.trust.package_verification import PackageVerifier  # as in verify

            verifier = PackageVerifier(
                self._package, timeout_s=None if limits is None else limits.timeout_s
            )
            self.verification = verifier.verify_variant(self.info)
            self._try_first_use(verdict)
            session = make(make_options())
            verifier.verify_again()
            return session

    def onnxruntime_args(
        self, sess_options: Any = None, *, verify: bool | None = None
    ) -> OnnxRuntimeArgs:
        """Return the arguments for an application's own ``onnxruntime.InferenceSession``.

        ``onnxruntime.InferenceSession(**variant.onnxruntime_args())`` runs the variant as selected:
        with its execution provider, on its device, with the options of the package that the option
        policy allows.

        Args:
            sess_options: the application's own ``onnxruntime.SessionOptions``; the execution
                provider is added to it. As with :meth:`create_session` it replaces the package's
                session options.
            verify: as with :meth:`create_session`.

        Raises:
            StaleVariantError: as for a session.
            NoSuitableVariantError: the installed onnxruntime cannot run it; the message says what
                could.
            ExecutionProviderError: onnxruntime cannot be loaded, or the selected device has
                vanished.
            OrtpkgError: the other errors of :meth:`create_session`.
        """
        # onnxruntime and the option policy are imported only on demand.
        from ortpkg.package.trust.option_policy import (
            path_options_of,
            provider_options_of,
            session_options_of,
        )
        from ortpkg.runtime.providers.onnxruntime_args import make_onnxruntime_args
        from ortpkg.selection.contexts.context_trust import check_model_file

        path = self._runnable_path()
        self._check_source()
        verdict = self._onnxruntime_verdict()
        ep_device = verdict.ep_device
        assert ep_device is not None
        if verify if verify is not None else self._package.compat is None:
            self.verify()
        with removal_explained(self._package, self.info):
            check_model_file(self.info, self._package, trust=self._trust)
        self._try_first_use(verdict)
        has_own = sess_options is not None
        options_of = path_options_of if has_own else session_options_of
        return make_onnxruntime_args(
            path,
            ep_device,
            session_options=options_of(self.info, self._package, trust=self._trust),
            provider_options=provider_options_of(
                self.info, self._package, ep_device, trust=self._trust, has_own_options=has_own
            )
            | self._requested_options(ep_device),
            sess_options=sess_options,
        )

    def _try_first_use(self, verdict: Verdict) -> None:
        """Try it in a child process if the machine that compiled it did not have the device."""
        if verdict.ep_device is None or verdict == self._tried or not compiled_unseen(self.info):
            return
        from ortpkg.selection.measuring.canary import (
            try_first_use,  # numpy, onnx and what starts children
        )

        try_first_use(self._package, verdict, self.selection, trust=self._trust)
        self._tried = verdict

    def _onnxruntime_verdict(self) -> Verdict:
        """Return the verdict on onnxruntime.

        NoSuitableVariantError, with alternatives, if it cannot run it.
        """
        try:
            verdict = self.verdict(backend="onnxruntime")
        except NoSuitableVariantError as error:
            others = dict.fromkeys(
                verdict.ep_device.backend
                for verdict in self.eligible_verdicts()
                if verdict.ep_device
            )
            instead = f"; create_session() runs it on {', '.join(others)}" if others else ""
            raise NoSuitableVariantError(
                f"the onnxruntime that is installed here cannot run variant {quoted(self.name)}"
                f"{f' ({self.constraints.ep})' if self.constraints.ep else ''}{instead}\n{error}",
                selection=self.selection,
            ) from error
        if verdict.ep_device is None:
            raise NoSuitableVariantError(
                f"variant {quoted(self.name)} has no EP device", selection=self.selection
            )
        return verdict

    def _session(
        self,
        path: Path,
        verdict: Verdict,
        options: SessionOptions,
        sess_options: SessionOptions | None,
        *,
        isolate: bool,
        limits: RunOptions | None,
        cache: bool,
        transformers: OwnTransformers | None,
        allow_fallback: bool,
        is_named: bool,
    ) -> InferenceSession:
        # numpy, onnx and the option policy are imported only when a session is really created.
        from ortpkg.distribution.used_packages import note_run
        from ortpkg.package.trust.option_policy import provider_options_of
        from ortpkg.runtime.ep_context.ep_context_options import CONTEXT_CACHE
        from ortpkg.runtime.session.inference_session import InferenceSession
        from ortpkg.runtime.session.lost_device import session_on
        from ortpkg.selection.choosing.measured_costs import state_measured_costs
        from ortpkg.selection.contexts.context_trust import context_gate

        note_run(self._package.root, f"{self.component_name}/{self.name}")
        if cache:
            options.add_session_config_entry(CONTEXT_CACHE, "1")
        if limits is not None and options.memory_limit_nbytes is None:
            options.memory_limit_nbytes = limits.memory_limit_nbytes
        if limits is not None and options.timeout_s is None:
            options.timeout_s = limits.timeout_s
        session = partial(
            InferenceSession,
            path,
            options,
            check_contexts=context_gate(self.info, self._package, trust=self._trust),
            is_confined=True,
            transformers=transformers,
            allow_fallback=allow_fallback or not is_named,
        )
        if verdict.ep_device is None:
            return session([CPU_EP], isolate=isolate)
        provider_options = provider_options_of(
            self.info,
            self._package,
            verdict.ep_device,
            trust=self._trust,
            has_own_options=sess_options is not None,
        ) | self._requested_options(verdict.ep_device)
        state_measured_costs(options, self._package, self.info, verdict.ep_device)
        devices = [(verdict.ep_device, provider_options)]
        on_cpu = partial(session, [CPU_EP]) if allow_fallback else None
        return session_on(
            verdict.ep_device, partial(session, ep_devices=devices, isolate=isolate), on_cpu
        )

    def _names_what_runs(self, backend: str) -> bool:
        """Return True if an execution provider or a backend was named, by caller or variant.

        False for a package that is read by the rules of a release, which falls back silently.
        """
        if self._package.compat is not None:
            return False
        is_backend_named = backend != "auto" or self.selection.backend not in (None, "auto")
        return bool(self.constraints.ep or self.selection.ep) or is_backend_named

    def _requested_options(self, ep_device: EpDevice) -> dict[str, str]:
        """Return the options that the caller of the selection asked for, which need no trust."""
        return dict(self.selection.provider_options.get(ep_device.ep_name, {}))

    def _session_options(self, own: SessionOptions | None, threads: int | None) -> SessionOptions:
        from ortpkg.package.trust.option_policy import (  # as above
            path_options_of,
            session_options_of,
        )
        from ortpkg.runtime.session.options import SessionOptions

        options = SessionOptions() if own is None else copy.deepcopy(own)
        if own is None:
            entries = session_options_of(self.info, self._package, trust=self._trust)
        else:
            paths = path_options_of(self.info, self._package, trust=self._trust)
            entries = {key: value for key, value in paths.items() if key not in own.config_entries}
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        if threads is not None and own is None:
            options.intra_op_num_threads = threads
        return options

    def _on_this_machine(self) -> ModelVariant:
        from ortpkg.selection.choosing.package_selection import (
            select_here,  # only for a variant that was selected for another machine
        )

        try:
            selection = select_here(
                self._package, self.info, self.selection.provider_options, trust=self._trust
            )
        except NoSuitableVariantError as error:
            name, machine = quoted(self.name), quoted(self.selection.machine)
            raise NoSuitableVariantError(
                f"variant {name} was selected for machine {machine}, and cannot run on this"
                f" one:\n{error}",
                selection=error.selection,
            ) from error
        return ModelVariant(self.info, selection, package=self._package, trust=self._trust)

    def verify_needs_no_trust(self) -> None:
        """Raise TrustRequiredError, which names the file in question, if only trust is missing."""
        try:
            verify_trusted(self.selection, self.info)
        except TrustRequiredError:
            from ortpkg.selection.contexts.context_trust import check_model_file  # numpy and onnx

            if not self.info.is_absent:
                check_model_file(self.info, self._package, trust=False)
            raise

    def _check_source(self) -> None:
        """Raise StaleVariantError if the package's digests say that its source is another model."""
        component = self._package.component(self.component_name)
        if self._package.compat is not None or component is None or not is_derived(self.info):
            return
        source = source_of(self.info, component)
        reason = why_stale(self.info, source, current_digests(self._package))
        if reason and source is not None:
            raise StaleVariantError(
                f"variant {quoted(self.name)} of {quoted(self.component_name)} is stale: {reason};"
                " make it anew with ortpkg compile --renew",
                variant=self.name,
                source=source.name,
                selection=self.selection,
            )

    def _runnable_path(self) -> Path:
        if self._package.compat is not None:
            return self._path_for_release(self._package.compat)
        if self.model_path is None:
            raise ModelError(f"variant {quoted(self.name)} {why_no_model(self.info)}")
        return self.model_path

    def _path_for_release(self, release: str) -> Path:
        """Return the model that the release loads: it searches for none and takes no folder."""
        if self.model_path is None:
            raise ModelError(
                f'variant {quoted(self.name)} has no executor_info["ort"]["model_file"]: {release}'
                f" makes no session without, whatever lies in {quoted(self.directory)}"
            )
        ort = self.info.executor_info.get(ORT)
        model_file = (
            str(ort.get("model_file", "")).partition("\0")[0] if isinstance(ort, Mapping) else ""
        )
        if model_file.replace(os.sep, "/").rpartition("/")[2] in ("", "."):
            raise ModelFileError(
                f"the model of variant {quoted(self.name)}, {quoted(model_file)}, is a"
                " folder's name"
            )
        return self.model_path

    def __repr__(self) -> str:
        return f"ModelVariant({self.component_name!r}, {self.name!r})"


def _reasons_against(selection: Selection, variant: VariantInfo, backend: str) -> list[str]:
    """Return why the variant runs nowhere on ``backend``."""
    own = [verdict for verdict in selection.verdicts if verdict.variant == variant]
    on_backend = [
        verdict for verdict in own if verdict.ep_device is None or _is_on(verdict, backend)
    ]
    if on_backend:
        return list(dict.fromkeys(f"  {verdict.code}: {verdict.reason}" for verdict in on_backend))
    return [f"  backend {quoted(backend)} offers nothing here"]


def _is_on(verdict: Verdict, backend: str) -> bool:
    return backend == "auto" or (
        verdict.ep_device is not None and verdict.ep_device.backend == backend
    )
