"""Façade of a model package: open it, inspect it, choose a variant, run it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ortpkg.api.chosen_variants import ChosenVariants
from ortpkg.api.model_variant import ModelVariant
from ortpkg.foundations.errors import NoSuitableVariantError, quoted, unquoted
from ortpkg.package.derived_variants import compiled_unseen
from ortpkg.package.named_parts import component_named, variant_named, verify_is_only_component
from ortpkg.package.package_info import (
    ComponentInfo,
    PackageFormat,
    PackageInfo,
    ValueInfo,
    VariantInfo,
)
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import has_digests
from ortpkg.selection.choosing.package_selection import select_component
from ortpkg.selection.matching.reasons import selected
from ortpkg.selection.matching.verdict import Selection
from ortpkg.selection.matching.wishes import ANY_VARIANT, SelectionWishes

if TYPE_CHECKING:
    from typing import Unpack

    from ortpkg.package.formats.samples import SampleSet
    from ortpkg.package.trust.package_verification import Verification
    from ortpkg.report.report_wishes import ReportWishes
    from ortpkg.runtime.pipelines.pipeline_session import PipelineSession
    from ortpkg.runtime.session.added_transformers import OwnTransformers
    from ortpkg.runtime.session.inference_session import InferenceSession
    from ortpkg.runtime.session.options import SessionOptions
    from ortpkg.selection.matching.measurements import CanaryFailure
    from ortpkg.selection.matching.wishes import SelectionKeywords
    from ortpkg.selection.measuring.canary import CanaryWishes


class ComponentModel:
    """One component model of a package: a name and its variants, in declaration order.

    Example::

        component = ortpkg.ModelPackage("digits.ortpackage").component_models[0]
        print([variant.name for variant in component.variants])
    """

    def __init__(self, package: ModelPackage, info: ComponentInfo) -> None:
        self._package = package
        self.info = info

    @property
    def name(self) -> str:
        """Name of the component, unique in the package."""
        return self.info.name

    @property
    def variants(self) -> Sequence[VariantInfo]:
        """All variants, whether they run here or not, in declaration order."""
        return self.info.variants

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The package's metadata of the component, unchanged; read-only."""
        return self.info.metadata

    def select(
        self, wishes: SelectionWishes = ANY_VARIANT, **keywords: Unpack[SelectionKeywords]
    ) -> Selection:
        """Judge the component's variants; see :meth:`ModelPackage.select`."""
        wishes = wishes.but("ComponentModel.select", keywords)
        return self._package.select(self.name, wishes)

    def best_variant(
        self, wishes: SelectionWishes = ANY_VARIANT, **keywords: Unpack[SelectionKeywords]
    ) -> ModelVariant:
        """Return the component's best variant; see :meth:`ModelPackage.best_variant`."""
        wishes = wishes.but("ComponentModel.best_variant", keywords)
        return self._package.best_variant(self.name, wishes)

    def variant(self, name: str) -> ModelVariant:
        """Return a variant of the component by name; see :meth:`ModelPackage.variant`."""
        return self._package.variant(name, self.name)

    def __repr__(self) -> str:
        return (
            f"ComponentModel({self.name!r}, variants={[variant.name for variant in self.variants]})"
        )


class ModelPackage:
    """A model package: opened and validated when constructed, then read-only and picklable.

    Args:
        root: the package's directory (``name.ortpackage/``). A string may also be the name of a
            package in the store, ``digits``, ``digits:2``, or ``oci://host/repository:tag``, which
            is fetched if necessary (docs/references.md). It stays there until the process ends.
        compat: None refuses what is unsafe or means different things to different readers;
            "onnxruntime-1.32" and "onnxruntime-1.31" accept and refuse what that release does,
            "onnxruntime-1.30" what 1.28 to 1.30 do.
        allow_external_paths: True to follow paths out of a package whose layout is "installed".
        trust: True to accept options from the package that can reach beyond it; only for a
            publisher whom you trust.

    Raises:
        PackageNotFoundError: there is no such directory, or it holds no package.
        PackageFormatError: its documents are not valid; ``findings`` has every problem.
        PathEscapesPackageError: it names a path that leaves it.

    Example::

        package = ortpkg.ModelPackage("digits.ortpackage")
        session = package.best_variant().create_session()
        (logits,) = session.run(None, {"image": image})
    """

    def __init__(
        self,
        root: str | PathLike[str],
        *,
        compat: str | None = None,
        allow_external_paths: bool = False,
        trust: bool = False,
    ) -> None:
        self.info: PackageInfo = open_package(
            _folder_of(root), compat=compat, allow_external_paths=allow_external_paths
        )
        self._trust = trust

    @classmethod
    def of(cls, info: PackageInfo, *, trust: bool = False) -> ModelPackage:
        """Return the façade of an opened package (:func:`~ortpkg.authoring.opening.opened`)."""
        package = cls.__new__(cls)
        # The user judges a bare model, including compiled contexts; it sets no options.
        package.info, package._trust = info, trust or info.is_bare_model
        return package

    @property
    def root(self) -> Path:
        """Directory of the package."""
        return self.info.root

    @property
    def name(self) -> str:
        """Name in its documents, else the directory's name without ``.ortpackage``."""
        return self.info.name

    @property
    def version(self) -> str | None:
        """Version in manifest.json; None if it states none."""
        return self.info.version

    @property
    def format(self) -> PackageFormat:
        """On-disk generation as which it was read."""
        return self.info.format

    @property
    def inputs(self) -> tuple[ValueInfo, ...]:
        """The package's overall inputs; empty if it states none."""
        return self.info.inputs

    @property
    def outputs(self) -> tuple[ValueInfo, ...]:
        """The package's overall outputs; empty if it states none."""
        return self.info.outputs

    @property
    def is_recorded(self) -> bool:
        """True if it has a digests.json.

        Otherwise its files cannot be verified, and selections warn about that.
        """
        return has_digests(self.root)

    @property
    def component_models(self) -> tuple[ComponentModel, ...]:
        """The component models in execution order."""
        return tuple(ComponentModel(self, component) for component in self.info.components)

    def component(self, name: str | None = None) -> ComponentInfo:
        """Return the component with this name; the only one if no name is given.

        Raises:
            UnknownComponentError: an unknown name, or none if there are several components; the
                message lists them.
            NoSuitableVariantError: the package is empty.
        """
        if not self.info.components:
            raise NoSuitableVariantError(
                f"package {quoted(self.name)} is empty: it has no component model; "
                f"`ortpkg add-variant {unquoted(self.root)} MODEL` adds one"
            )
        return component_named(self.info, name)

    def select(
        self,
        component: str | None = None,
        wishes: SelectionWishes = ANY_VARIANT,
        *,
        canary_failures: Sequence[CanaryFailure] = (),
        **keywords: Unpack[SelectionKeywords],
    ) -> Selection:
        """Judge every variant on every EP device of a machine, with a reason for each.

        If nothing fits, ``Selection.best`` is None; that is no error.

        Args:
            component: name of the component model; may be left out if there is only one.
            wishes: the following keyword arguments as one value; those that are also given directly
                take precedence.
            device: only this device type: "cpu", "gpu" or "npu".
            ep: only this execution provider; aliases such as "openvino" are understood. If the
                policy is a release of onnxruntime: the EPs that an application asks for, in its
                order (also in one string, with commas).
            backend: only this backend: "embedded", "openvino", "onnxruntime", ...; "auto": any. A
                release of onnxruntime has no backends: if it is the policy, this is ignored.
            policy: the order of preference; "measured" for the results of ``ortpkg bench`` here;
                "onnxruntime-1.32", "onnxruntime-1.31" or "onnxruntime-1.27" for the selection of
                that release (docs/selection.md).
            variant: judge only the variant with this name.
            provider_options: options of an execution provider, as ``{option: value}`` (of ``ep``,
                or of the EP that ``device_type`` or ``backend_type`` implies) or ``{EP: {option:
                value}}``. An option that names a device takes part in the choice; a session on the
                winner uses all, before the package's of the same key.
            check_architecture: evaluate ``constraints.architecture`` too.
            profile: another machine than this one: the name of a built-in profile, a file, or a
                profile.
            machine: this machine as :func:`ortpkg.this_machine` found it before; for several
                selections in a row, since nothing is probed and no library is asked again.
            log: called with a record of the decision, a JSON object.
            max_memory, max_size: limits in bytes, or as a string such as "500MB" or "1.5GiB".
            min_precision: "int4", "int8", "fp16", "bf16" (the same as fp16), "fp32" or "fp64".
            where: metadata that a variant must have, a mapping or strings such as
                "quantization=int8".
            max_latency: limit of the measured time: seconds, or a string such as "5ms".
            max_error: limit of the measured error: the largest absolute difference.
            strict_facts: reject also variants that cannot be checked.
            include_absent: judge variants whose files are absent (of a sparse package) as if they
                were here.
            canary_failures: variants that just failed a try, see
                ``ortpkg.selection.measuring.canary``; not with a release's policy.

        Raises:
            UnknownComponentError: the package has no component or variant of this name.
            UsageError: an unknown policy, device, EP or backend, or an invalid limit.
            ProfileError: not a profile.
        """
        wishes = wishes.but("ModelPackage.select", keywords)
        chosen = self.component(component)
        if wishes.variant is not None:
            chosen = replace(chosen, variants=(variant_named(chosen, wishes.variant),))
        return select_component(self.info, chosen, wishes, canary_failures, trust=self._trust)

    def best_variant(
        self,
        component: str | None = None,
        wishes: SelectionWishes = ANY_VARIANT,
        *,
        canary: bool | CanaryWishes = False,
        canary_failures: Sequence[CanaryFailure] = (),
        **keywords: Unpack[SelectionKeywords],
    ) -> ModelVariant:
        """Return the best variant of a component on this machine.

        The arguments are those of :meth:`select`. With ``canary`` a variant must first load and run
        a sample in a child process; the best that does is chosen
        (:func:`ortpkg.selection.measuring.canary.select_by_canary`). That also happens without it
        if the best was compiled for a device that the compiling machine did not have: it never ran.

        Raises:
            NoSuitableVariantError: nothing fits; its ``selection`` has the reason for each variant.
            TrustRequiredError: only trust is missing.
        """
        wishes = wishes.but("ModelPackage.best_variant", keywords)
        selection = self.select(component, wishes, canary_failures=canary_failures)
        tried = None
        if canary is not False or _never_ran(selection, wishes):
            canary_wishes = True if canary is False else canary
            selection = self._select_by_canary(component, canary_wishes, wishes, canary_failures)
            tried = selection.best
        if selection.best is None and wishes.variant is not None:
            named = variant_named(self.component(component), wishes.variant)
            alone = ModelVariant(named, selection, package=self.info, trust=self._trust)
            alone.verify_needs_no_trust()  # raises an error that names the file in question
        best = selected(selection)
        return ModelVariant(
            best.variant, selection, package=self.info, trust=self._trust, tried=tried
        )

    def _select_by_canary(
        self,
        component: str | None,
        canary: Literal[True] | CanaryWishes,
        wishes: SelectionWishes,
        before: Sequence[CanaryFailure],
    ) -> Selection:
        from ortpkg.selection.measuring.canary import (  # as in _canary
            CanaryWishes,
            select_by_canary,
        )

        return select_by_canary(
            self.info,
            self.component(component),
            lambda failures: self.select(component, wishes, canary_failures=(*before, *failures)),
            CanaryWishes() if canary is True else canary,
            backend=wishes.backend,
            trust=self._trust,
        )

    def variant(self, name: str, component: str | None = None) -> ModelVariant:
        """Return the variant with this name, whether or not it is the best, or runs here at all.

        Its ``selection`` judges it alone, on this machine; a session on a variant that runs nowhere
        here is a NoSuitableVariantError.

        Raises:
            UnknownComponentError: an unknown name, or no component if there are several; the
                message lists the names.
        """
        info = variant_named(self.component(component), name)
        selection = self.select(component, variant=name)
        return ModelVariant(info, selection, package=self.info, trust=self._trust)

    def best_variants(
        self, wishes: SelectionWishes = ANY_VARIANT, **keywords: Unpack[SelectionKeywords]
    ) -> dict[str, ModelVariant]:
        """Return the best variant of every component, by component name, in execution order."""
        wishes = wishes.but("ModelPackage.best_variants", keywords)
        return {
            component.name: self.best_variant(component.name, wishes)
            for component in self.info.components
        }

    def create_session(
        self,
        component: str | None = None,
        wishes: SelectionWishes = ANY_VARIANT,
        *,
        sess_options: SessionOptions | None = None,
        verify: bool | None = None,
        canary: bool = False,
        isolate: bool = False,
        transformers: OwnTransformers | None = None,
        allow_fallback: bool | None = None,
        **keywords: Unpack[SelectionKeywords],
    ) -> InferenceSession | PipelineSession:
        """Return a session on the component's best variant, or on every component's for a pipeline.

        It is a :class:`PipelineSession` if the package is a pipeline and no component is named.
        ``component``, ``canary`` and the wishes are those of :meth:`choose`. The other arguments
        are those of :meth:`ModelVariant.create_session`, and so are the errors.
        """
        wishes = wishes.but("ModelPackage.create_session", keywords)
        chosen = self.choose(component, wishes, canary=canary and _canary(verify))
        return chosen.create_session(
            partial(
                ModelVariant.create_session,
                sess_options=sess_options,
                backend=wishes.backend,
                verify=verify,
                isolate=isolate,
                transformers=transformers,
                allow_fallback=allow_fallback,
            )
        )

    def choose(
        self,
        component: str | None = None,
        wishes: SelectionWishes = ANY_VARIANT,
        *,
        canary: bool | CanaryWishes = False,
        canary_failures: Sequence[CanaryFailure] = (),
        **keywords: Unpack[SelectionKeywords],
    ) -> ChosenVariants:
        """Return the variants that a session runs: the component's best, or one per component.

        A pipeline is a package with several components, or with a pipeline.json, unless it is read
        by the rules of a release, which has no pipelines. The arguments and errors are those of
        :meth:`best_variant`.

        Raises:
            UnknownComponentError: a variant is named without its component, and there are several.
        """
        wishes = wishes.but("ModelPackage.choose", keywords)
        is_pipeline = component is None and self.info.is_pipeline
        if is_pipeline and wishes.variant is not None:
            verify_is_only_component(self.info, wishes.variant)
        names = (
            [component.name for component in self.info.components] if is_pipeline else [component]
        )
        variants = [
            self.best_variant(name, wishes, canary=canary, canary_failures=canary_failures)
            for name in names
        ]
        return ChosenVariants(
            package=self.info,
            variants={chosen.component_name: chosen for chosen in variants},
            is_pipeline=is_pipeline,
        )

    def verify_samples(
        self, sample_sets: Iterable[SampleSet], *, timeout_s: float | None = None
    ) -> Verification:
        """Compare samples.json and the files of ``sample_sets`` with digests.json.

        Raises:
            DigestMismatchError: a file is not as recorded.
            LimitExceededError: it takes longer than ``timeout_s``.
        """
        from ortpkg.package.trust.package_verification import (
            PackageVerifier,  # hashlib takes as long to import as opening a package
        )

        return PackageVerifier(self.info, timeout_s=timeout_s).verify_samples(sample_sets)

    def report(
        self,
        wishes: ReportWishes | None = None,
        *,
        sess_options: SessionOptions | None = None,
    ) -> str:
        """Return an HTML page about the package: docs/report.md.

        The page is self-contained. Variants are selected, and the graphs of the chosen ones
        planned; nothing is run. A model that cannot be planned is no error: the page has the
        reason.

        Args:
            wishes: other machines, choice of graphs, measurements (:class:`ortpkg.ReportWishes`);
                None for the default.
            sess_options: options of the sessions that plan the graphs, including limits of memory
                and time.

        Raises:
            ProfileError: not a profile.
            UsageError: impossible wishes.
        """
        from ortpkg.api.reporting import make_report  # imports everything that makes pages
        from ortpkg.report.report_wishes import ReportWishes

        return make_report(
            self.info,
            lambda component, profile: self.select(component, profile=profile),
            wishes or ReportWishes(),
            trust=self._trust,
            sess_options=sess_options,
        )

    def __repr__(self) -> str:
        return f"ModelPackage({str(self.root)!r})"


def _never_ran(selection: Selection, wishes: SelectionWishes) -> bool:
    """Return True if this machine's best variant was compiled on a machine without its device."""
    best = selection.best
    return wishes.profile is None and best is not None and bool(compiled_unseen(best.variant))


def _folder_of(reference: str | PathLike[str]) -> Path:
    """Return the folder of a reference, fetching it into the store first if necessary."""
    if not isinstance(reference, str) or (":" not in reference and Path(reference).exists()):
        return Path(reference)
    # Most packages are folders, which need none of these imports.
    from ortpkg.distribution.opening_references import use_package
    from ortpkg.package.references.package_references import parse_reference

    return use_package(parse_reference(reference))


def _canary(verify: bool | None) -> CanaryWishes:
    from ortpkg.selection.measuring.canary import (
        CanaryWishes,  # imports numpy, onnx and child processes
    )

    return CanaryWishes(verify=verify is not False)
