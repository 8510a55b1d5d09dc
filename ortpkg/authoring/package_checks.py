"""Validate a package: find what is wrong or doubtful, without running anything of it.

The documents come first (``package.reader``); models are checked only if the documents are valid.
Each check is one function in :data:`PACKAGE_CHECKS` that returns findings and raises for nothing
that a package may contain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ortpkg.authoring.checks.checked_package import CheckedPackage
from ortpkg.authoring.checks.context_weight_checks import check_context_weights
from ortpkg.authoring.checks.derived_checks import check_sources
from ortpkg.authoring.checks.file_checks import (
    check_declared_names,
    check_file_names,
    check_leftovers,
    check_recorded_files,
    check_shared_assets,
)
from ortpkg.authoring.checks.genai_checks import check_genai_target, check_genai_variants
from ortpkg.authoring.checks.model_checks import (
    check_agreement,
    check_attributes,
    check_contexts,
    check_cpu_layouts,
    check_external_data,
    check_models,
    check_onnx_operators,
    check_operators,
    check_overall_values,
)
from ortpkg.authoring.checks.pipeline_checks import check_pipeline
from ortpkg.authoring.checks.release_checks import (
    check_release_opens,
    check_release_reads_contexts,
    check_release_reads_models,
    check_release_selects,
    check_several_components,
    check_universal_target,
)
from ortpkg.authoring.checks.sample_checks import check_samples
from ortpkg.authoring.checks.selection_checks import (
    check_cpu_coverage,
    check_devices,
    check_never_selected,
    check_options,
    check_ties,
)
from ortpkg.authoring.opening import NamedKind, kind_of, model_as_package, package_folder
from ortpkg.authoring.rule_registry import RuleFilter, check_targets, rule_filter
from ortpkg.authoring.rules import (
    file_rules,
    genai_rules,
    model_rules,
    pipeline_rules,
    release_rules,
    sample_rules,
    selection_rules,
)
from ortpkg.authoring.rules.targets import CAUTIONS
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.errors import Finding, Severity
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.document_names import MANIFEST, METADATA
from ortpkg.package.reader import check_package
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.runtime.providers.ep_registry import all_known_names

MOST_FINDINGS = 1000
#: How often a package is checked again because a command changed it meanwhile.
_MOST_ATTEMPTS = 50
"""Most findings of one check: a package can be made to have any number."""


@dataclass(frozen=True, slots=True)
class PackageCheck:
    """A check, and the rules of its findings."""

    run: Callable[[CheckedPackage], Iterable[Finding]]
    rules: tuple[Rule, ...]


PACKAGE_CHECKS: dict[str, PackageCheck] = {
    "external data": PackageCheck(
        check_external_data,
        (
            model_rules.DATA_LEAVES,
            model_rules.DATA_NOT_PLAIN,
            model_rules.DATA_HARD_LINKED,
            model_rules.DATA_MISSING,
            model_rules.DATA_TOO_SHORT,
            model_rules.DATA_RANGE,
            model_rules.DATA_OVERLAPS,
        ),
    ),
    "models": PackageCheck(check_models, (model_rules.MODEL_WRONG,)),
    "compiled contexts": PackageCheck(
        check_contexts,
        (
            model_rules.CONTEXT_LEAVES,
            model_rules.CONTEXT_MISSING,
            model_rules.CONTEXT_WITHOUT_MAIN,
            model_rules.CONTEXT_SOURCE,
            model_rules.CONTEXT_MAKER_REMOVED,
        ),
    ),
    "weights of contexts": PackageCheck(check_context_weights, (model_rules.CONTEXT_WEIGHTS,)),
    "operators": PackageCheck(check_operators, (model_rules.OPERATOR_UNKNOWN,)),
    "layouts of one CPU": PackageCheck(check_cpu_layouts, (model_rules.BOUND_TO_ONE_CPU,)),
    "ONNX's operators": PackageCheck(
        check_onnx_operators, (model_rules.OPERATOR_UNDEFINED, model_rules.OPERATOR_DEPRECATED)
    ),
    "attributes": PackageCheck(check_attributes, (model_rules.ATTRIBUTE_UNDEFINED,)),
    "agreement": PackageCheck(
        check_agreement, (model_rules.VALUES_DIFFER, model_rules.FIXED_DIMENSIONS_DIFFER)
    ),
    "overall values": PackageCheck(check_overall_values, (model_rules.OVERALL_VALUES_OUTDATED,)),
    "sources": PackageCheck(check_sources, (model_rules.SOURCE_CHANGED,)),
    "cpu coverage": PackageCheck(check_cpu_coverage, (selection_rules.NO_CPU_VARIANT,)),
    "ties": PackageCheck(check_ties, (selection_rules.SELECTION_TIE,)),
    "never selected": PackageCheck(
        check_never_selected, (selection_rules.CPU_DEVICE_STATED, selection_rules.EP_NOT_STATED)
    ),
    "devices": PackageCheck(
        check_devices,
        (selection_rules.DEVICE_NEVER_MATCHES, selection_rules.OPTION_DEVICE_CONFLICT),
    ),
    "options": PackageCheck(
        check_options, (selection_rules.OPTION_NEEDS_TRUST, selection_rules.OPTION_VALUE)
    ),
    "file names": PackageCheck(
        check_file_names, (file_rules.FILE_NAME, file_rules.NAMES_COLLIDE, file_rules.PATH_LONG)
    ),
    "declared names": PackageCheck(check_declared_names, (file_rules.NAMES_COLLIDE,)),
    "recorded files": PackageCheck(
        check_recorded_files,
        (
            file_rules.FILE_CHANGED,
            file_rules.FILE_LOST,
            file_rules.FILE_UNREADABLE,
            file_rules.FILE_NOT_RECORDED,
            file_rules.NO_DIGESTS,
        ),
    ),
    "shared assets": PackageCheck(check_shared_assets, (file_rules.ASSET_CHANGED,)),
    "leftovers": PackageCheck(check_leftovers, (file_rules.CHANGE_INTERRUPTED,)),
    "pipeline": PackageCheck(
        check_pipeline,
        (
            pipeline_rules.PIPELINE_VALUE_UNKNOWN,
            pipeline_rules.PIPELINE_INPUT_NOT_FED,
            pipeline_rules.PIPELINE_VALUE_MISFITS,
        ),
    ),
    "samples": PackageCheck(
        check_samples,
        (
            sample_rules.SAMPLE_UNREADABLE,
            sample_rules.SAMPLE_NAMES,
            sample_rules.SAMPLE_MISFITS,
            sample_rules.SAMPLE_LABELS,
            sample_rules.SAMPLE_EXPECTS_NOTHING,
        ),
    ),
    "genai variants": PackageCheck(
        check_genai_variants, (genai_rules.GENAI_CONFIG_WRONG, genai_rules.GENAI_FILE_MISSING)
    ),
    "genai": PackageCheck(
        check_genai_target,
        (
            genai_rules.GENAI_ONE_COMPONENT,
            genai_rules.GENAI_GENERATION,
            genai_rules.GENAI_CONFIG_MISSING,
            genai_rules.GENAI_OPTIONS_IGNORED,
        ),
    ),
    "release selects": PackageCheck(check_release_selects, (release_rules.RELEASE_NEVER_SELECTS,)),
    "release reads models": PackageCheck(
        check_release_reads_models, (release_rules.RELEASE_MODEL_TOO_NEW,)
    ),
    "release reads contexts": PackageCheck(
        check_release_reads_contexts, (release_rules.RELEASE_READS_NO_CONTEXTS,)
    ),
    "several components": PackageCheck(
        check_several_components, (release_rules.SEVERAL_COMPONENTS,)
    ),
    "universal": PackageCheck(
        check_universal_target,
        (release_rules.UNIVERSAL_GENERATIONS, release_rules.UNIVERSAL_ONE_COMPONENT),
    ),
}
"""Checks by name, in the order in which findings are listed."""

_MODEL_CHECKS = (
    "external data",
    "models",
    "compiled contexts",
    "operators",
    "ONNX's operators",
    "release reads models",
)
"""Checks that are meaningful for a bare model."""


def cautions_of(targets: Sequence[str]) -> tuple[str, ...]:
    """Return general remarks on the target readers, a sentence each."""
    return tuple(CAUTIONS[target] for target in dict.fromkeys(targets) if target in CAUTIONS)


def validate(
    root: Path | str,
    *,
    targets: Iterable[str] = (),
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    compat: str | None = None,
    allow_external_paths: bool = False,
    progress: Progress | None = None,
) -> tuple[Finding, ...]:
    """Return every finding of a package: documents, models, selection, names, digests, samples.

    Args:
        root: the package, a packed one (unpacked while it is checked), or an ONNX file.
        targets: readers (``rules.targets``) whose behaviour with the package is checked, too; such
            findings name them.
        select, ignore: ids of rules, or prefixes of ids ("ORT1"), to include or exclude; the
            longest one that fits a rule decides. Errors that keep the package from being opened are
            always among the findings.
        compat: "onnxruntime-1.32" or "onnxruntime-1.31" (or "onnxruntime-1.30", for 1.28 to 1.30):
            only errors of documents that keep that release from opening them are errors.
        allow_external_paths: follow paths out of a package whose layout is "installed".
        progress: called with (file, bytes done, bytes in total) while files are hashed.

    Raises:
        PackageNotFoundError: there is no directory at ``root``.
        UsageError: a target, rule or release is not known.
    """
    rule_choice = rule_filter(select, ignore)
    known_targets = check_targets(targets)
    if kind_of(root) is NamedKind.MODEL:
        return _model_findings(Path(root), rule_choice, known_targets)
    with package_folder(root, progress=progress) as folder:
        for _ in range(_MOST_ATTEMPTS):
            before = _state_of(folder)
            findings = _package_findings(
                folder,
                rule_choice,
                known_targets,
                compat=compat,
                allow_external_paths=allow_external_paths,
                progress=progress,
            )
            if not findings or _state_of(folder) == before:
                # otherwise a command changed the package meanwhile, and old documents met new files
                break
        return findings


def _state_of(root: Path) -> list[FileStamp | None]:
    """Return the state of the documents, of which every change of a package replaces one."""
    documents = [root / MANIFEST, root / DIGESTS_FILE, *sorted(root.glob(f"*/*/{METADATA}"))]
    return [file_stamp(path) for path in documents]


def _model_findings(
    model: Path, rule_choice: RuleFilter, targets: tuple[str, ...]
) -> tuple[Finding, ...]:
    info = model_as_package(model)
    package = CheckedPackage.of(info, targets=targets)
    return tuple(_run_checks(package, rule_choice, only=_MODEL_CHECKS))


def _package_findings(
    root: Path,
    rule_choice: RuleFilter,
    known_targets: tuple[str, ...],
    *,
    compat: str | None,
    allow_external_paths: bool,
    progress: Progress | None,
) -> tuple[Finding, ...]:
    info, findings = check_package(root, compat=compat, allow_external_paths=allow_external_paths)
    installed = all_known_names() if any(finding.subject for finding in findings) else ()
    wanted_findings = [
        finding
        for finding in findings
        if (rule_choice.wants(finding.rule) and finding.subject not in installed)
        or (info is None and finding.severity is Severity.ERROR)
    ]
    if info is not None:
        package = CheckedPackage.of(info, targets=known_targets, progress=progress)
        wanted_findings += _run_checks(package, rule_choice)
    if rule_choice.wants(release_rules.RELEASE_REFUSES.id):
        wanted_findings += _bounded(check_release_opens(root, known_targets))
    return tuple(wanted_findings)


def _run_checks(
    package: CheckedPackage, rule_choice: RuleFilter, only: Collection[str] = PACKAGE_CHECKS
) -> Iterator[Finding]:
    """Yield findings of the checks with a selected rule."""
    for name, check in PACKAGE_CHECKS.items():
        if name in only and any(rule_choice.wants(rule.id) for rule in check.rules):
            yield from _bounded(
                finding for finding in check.run(package) if rule_choice.wants(finding.rule)
            )


def _bounded(findings: Iterable[Finding]) -> list[Finding]:
    """Return the first findings; if there are more, the last one says so."""
    bounded = list(islice(findings, MOST_FINDINGS + 1))
    if len(bounded) <= MOST_FINDINGS:
        return bounded
    last = bounded[MOST_FINDINGS - 1]
    return [
        *bounded[: MOST_FINDINGS - 1],
        replace(last, message=f"{last.message} (and more such findings, not listed)"),
    ]
