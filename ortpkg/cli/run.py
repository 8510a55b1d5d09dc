"""``ortpkg run``: runs a package's samples, or the caller's inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortpkg.api.model_package import ModelPackage
from ortpkg.api.model_variant import ModelVariant
from ortpkg.authoring.opening import opened
from ortpkg.cli.choice_options import VariantChoice
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.given_inputs import GivenInputs, InputOptions
from ortpkg.cli.interruptible import interruptible
from ortpkg.cli.load_limits import DEFAULT_TIMEOUT_S, MemoryLimitOption, TimeoutOption
from ortpkg.cli.output_files import OutputKind, OverwriteFileOption, verify_output, verify_reads_no
from ortpkg.cli.parameters import (
    CompatOption,
    ExternalPathsOption,
    ProviderOptionsOption,
    SampledPackageArgument,
    TrustOption,
    TrustPolicyOption,
)
from ortpkg.cli.placement_table import ExpectedPlacement, placement_json
from ortpkg.cli.rendering import Output, duration_text
from ortpkg.cli.run_guard import guarded
from ortpkg.cli.run_options import (
    AllowFallbackOption,
    CacheOption,
    CanaryOption,
    IsolateOption,
    MinOffloadOption,
    OutputOption,
    StrictOption,
    ThreadsOption,
    VerifyOption,
)
from ortpkg.cli.run_results import MOST_SHOWN, output_cells, print_report, report_json, value_json
from ortpkg.cli.table_layout import Column
from ortpkg.distribution.used_packages import how_to_fetch_samples
from ortpkg.foundations.errors import ExitCode, PackageError, UsageError, quoted
from ortpkg.package.sidecar import SAMPLES_DIRECTORY
from ortpkg.package.trust.policy_place import policy_in_use
from ortpkg.selection.matching.wishes import SelectionWishes

if TYPE_CHECKING:
    from ortpkg.api.samples.sample_runner import SampleReport
    from ortpkg.package.formats.samples import SampleSet
    from ortpkg.runtime.session.inference_session import InferenceSession
    from ortpkg.runtime.session.options import RunOptions
    from ortpkg.runtime.session.placement import Placement
    from ortpkg.selection.measuring.canary import CanaryWishes


def command(
    output: Output,
    package: SampledPackageArgument = None,
    *,
    inputs: InputOptions,
    output_path: OutputOption = None,
    overwrite: OverwriteFileOption = False,
    choice: VariantChoice,
    provider_option: ProviderOptionsOption = None,
    timeout: TimeoutOption = None,
    memory_limit: MemoryLimitOption = None,
    threads: ThreadsOption = None,
    isolate: IsolateOption = None,
    min_offload: MinOffloadOption = None,
    strict: StrictOption = False,
    canary: CanaryOption = False,
    allow_fallback: AllowFallbackOption = False,
    cache: CacheOption = False,
    verify: VerifyOption = True,
    trust: TrustOption = False,
    trust_policy: TrustPolicyOption = None,
    compat: CompatOption = None,
    allow_external_paths: ExternalPathsOption = False,
) -> int:
    """Run the package's samples, or your own inputs.

    With nothing but PKG, runs the samples that the package carries and says whether the outputs
    match. Afterwards it says what ran where. The exit code is 1 where outputs do not match, or
    --min-offload or --strict is not met.
    """
    run_options = _run_options(timeout, memory_limit)
    given_inputs = inputs.given()
    if output_path is not None:
        verify_output(output_path, "--output", OutputKind.ARRAYS, overwrite=overwrite)
        verify_reads_no(
            output_path, "--output", (Path(text.rpartition("=")[2]) for text in given_inputs.files)
        )
    root = chosen_package(package, output)
    wishes = choice.wishes(provider_option)
    isolated = isolate if isolate is not None else timeout is not None or memory_limit is not None
    create = partial(
        ModelVariant.create_session,
        backend=choice.backend,
        verify=verify,
        isolate=isolated,
        limits=run_options,
        cache=cache,
        threads=threads,
        allow_fallback=allow_fallback,
    )
    expected = ExpectedPlacement(least_percent=min_offload, is_strict=strict)
    with (
        policy_in_use(_readable(trust_policy)),
        guarded(run_options, output),
        opened(root, compat=compat, allow_external_paths=allow_external_paths) as info,
    ):
        model_package = ModelPackage.of(info, trust=trust)
        tries = canary and _canary(output, run_options, verify=verify)
        runner = _Runner(model_package, output, expected, choice.component, wishes, tries, create)
        if given_inputs:
            return runner.run_inputs(given_inputs, output_path, run_options)
        return runner.run_samples(output_path, run_options, verify=verify)


def _readable(trust_policy: Path | None) -> Path | None:
    """Return the named policy after checking that it can be read, even if nothing will use it."""
    if trust_policy is not None:
        from ortpkg.package.trust.trust_policy_file import read_policy  # only where one is named

        read_policy(trust_policy)
    return trust_policy


def _run_options(timeout_s: float | None, memory_limit_nbytes: int | None) -> RunOptions:
    from ortpkg.runtime.session.options import (
        RunOptions,  # sessions load numpy and onnx; other commands do not need them
    )

    options = RunOptions()
    options.timeout_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
    options.memory_limit_nbytes = memory_limit_nbytes
    return options


def _canary(output: Output, limits: RunOptions, *, verify: bool) -> CanaryWishes:
    """Return the options of a trial in a child process, within the limits of a run.

    A failure becomes a warning of the selection. That another variant is tried, which may take
    minutes, is reported at once.
    """
    from ortpkg.selection.measuring.canary import CANARY_TIMEOUT_S, CanaryWishes  # numpy and onnx

    return CanaryWishes(
        verify=verify,
        timeout_s=min(CANARY_TIMEOUT_S, limits.timeout_s or CANARY_TIMEOUT_S),
        verify_timeout_s=limits.timeout_s,
        memory_limit_nbytes=limits.memory_limit_nbytes,
        on_note=output.note,
    )


class _Runner:
    """One ``ortpkg run``: the session, its variants, and how results are shown."""

    def __init__(
        self,
        package: ModelPackage,
        output: Output,
        expected: ExpectedPlacement,
        component: str | None,
        wishes: SelectionWishes,
        canary: CanaryWishes | bool,
        create: Callable[[ModelVariant], InferenceSession],
    ) -> None:
        """Select variants like the API, and create their sessions with ``create``."""
        self.package, self.output, self.expected_placement = package, output, expected
        start = time.perf_counter()
        chosen = package.choose(component, wishes, canary=canary)
        self.variants = chosen.variants
        self.component = None if chosen.is_pipeline else next(iter(chosen.variants))
        self.session: Any = chosen.create_session(create)
        self.load_s = time.perf_counter() - start
        self.verdicts = {
            name: variant.verdict(backend=wishes.backend)
            for name, variant in chosen.variants.items()
        }

    def describe(self) -> None:
        """Print on standard error what runs where."""
        for name, verdict in self.verdicts.items():
            ep_device = verdict.ep_device
            where = "any execution provider" if ep_device is None else ep_device.ep_and_backend
            hardware = (
                ""
                if ep_device is None or ep_device.device is None
                else f", {ep_device.device.type} {ep_device.device.name}"
            )
            self.output.note(f"{name}: variant {verdict.variant.name} on {where}{hardware}")
        warnings = [
            warning for variant in self.variants.values() for warning in variant.selection.warnings
        ]
        for warning in dict.fromkeys(warnings):
            self.output.warning(warning)

    def finish(self) -> bool:
        """Print a line for each component on what ran where.

        Returns:
            True if everything ran as requested.
        """
        for name, placement in self.placements.items():
            self.output.note(f"{name}: {placement.describe()}")
        shortfalls = self.expected_placement.shortfalls(self.placements)
        for shortfall in shortfalls:
            self.output.note(f"warning: {shortfall.message}", style="yellow", is_urgent=True)
        return not any(shortfall.is_fatal for shortfall in shortfalls)

    @property
    def placements(self) -> Mapping[str, Placement]:
        placement = self.session.get_placement()
        return placement if self.component is None else {self.component: placement}

    def runs_json(self) -> list[dict[str, Any]]:
        """Return where each variant runs, one object per component, for ``--json``."""
        placements = self.placements
        return [
            {
                "component": name,
                "variant": verdict.variant.name,
                "ep": verdict.ep_device.ep_name if verdict.ep_device else None,
                "backend": verdict.ep_device.backend if verdict.ep_device else None,
                "device": (
                    verdict.ep_device.device.type
                    if verdict.ep_device and verdict.ep_device.device
                    else None
                ),
                "verified": self._is_verified(name),
                "placement": placement_json(placements[name]),
            }
            for name, verdict in self.verdicts.items()
        ]

    def _is_verified(self, name: str) -> bool:
        verification = self.variants[name].verification
        return verification is not None and verification.is_verified

    # --- the caller's inputs ----------------------------------------------------------------------

    def run_inputs(self, given_inputs: GivenInputs, output: Path | None, run_options: Any) -> int:
        """Run the user's inputs once, print or write the outputs, and return the exit code."""
        from ortpkg.foundations.arrays.array_files import write_npz  # numpy

        ranges = {
            value.name: value.value_range
            for value in self.package.inputs
            if value.value_range is not None
        }
        feeds = given_inputs.feeds(self.session.get_inputs(), ranges)
        self.describe()
        start = time.perf_counter()
        values = interruptible(lambda: self.session.run(None, feeds, run_options), run_options)
        latency_s = time.perf_counter() - start
        named = {
            argument.name: value
            for argument, value in zip(self.session.get_outputs(), values, strict=True)
        }
        if output is not None:
            write_npz(output, named)
        shown = self._presented(named)
        as_asked = self.finish()
        if self.output.is_json:
            outputs = [{"name": name, **value_json(value)} for name, value in named.items()]
            timing = {"load_s": self.load_s, "latency_s": latency_s}
            content = {"as_asked": as_asked, **timing, "outputs": outputs, "predicted": shown}
            self.output.json("run", {"ran": self.runs_json(), **content})
        else:
            self.output.table(
                [Column("output"), Column("type"), Column("shape"), Column("values", wraps=16)],
                [(name, *output_cells(value)) for name, value in named.items()],
            )
            if shown:
                more = ", ..." if len(shown) > MOST_SHOWN else ""
                self.output.line(f"predicted: {', '.join(shown[:MOST_SHOWN])}{more}")
            self.output.note(
                f"{duration_text(latency_s)}" + (f"; wrote {output}" if output else "")
            )
        return ExitCode.DONE if as_asked else ExitCode.FINDINGS

    def _presented(self, outputs: dict[str, Any]) -> list[str]:
        """Return the outputs in the form of the package's samples.

        Returns an empty list if they are numbers, or if there are no samples.
        """
        from ortpkg.api.samples.sample_runner import present  # numpy
        from ortpkg.package.formats.samples import DisplayKind, read_samples

        try:
            for sample_set in read_samples(self.package.info):
                display = sample_set.display
                if (
                    self._is_ours(sample_set.component)
                    and display is not None
                    and display.kind is not DisplayKind.TENSOR
                ):
                    return present(sample_set, outputs)
        except PackageError as error:  # the outputs are valid all the same
            self.output.warning(error)
        return []

    def _own_samples(self) -> list[SampleSet]:
        from ortpkg.package.formats.samples import read_samples

        samples = [
            sample_set
            for sample_set in read_samples(self.package.info)
            if self._is_ours(sample_set.component)
        ]
        if not samples:
            names = ", ".join(f"{quoted(argument.name)}" for argument in self.session.get_inputs())
            raise UsageError(
                f"{_what(self.package)} {self._why_no_samples()}: give --input NAME=FILE for"
                f" {names}, or --random"
            )
        return samples

    def _why_no_samples(self) -> str:
        info = self.package.info
        if not any(path.startswith(f"{SAMPLES_DIRECTORY}/") for path in info.absent_files):
            return "carries no samples"
        return f"has samples, which are not here ({how_to_fetch_samples(info.root)})"

    # --- the package's samples --------------------------------------------------------------------

    def run_samples(self, output: Path | None, run_options: Any, *, verify: bool) -> int:
        """Run the package's samples, compare the outputs, and return the exit code."""
        from ortpkg.api.samples.sample_runner import run_samples
        from ortpkg.foundations.arrays.array_files import write_npz  # numpy
        from ortpkg.runtime.pipelines.run_limits import SharedRunOptions
        from ortpkg.selection.measuring.variant_precision import precision_of_variant

        samples = self._own_samples()
        if verify:
            self.package.verify_samples(samples, timeout_s=run_options.timeout_s)
        self.describe()
        ran = None if self.component is None else self.verdicts[self.component].variant
        precision = None if ran is None else precision_of_variant(ran)
        limits = SharedRunOptions(run_options)

        def run_all() -> list[SampleReport]:
            keep = output is not None
            return [
                run_samples(
                    self.session,
                    sample_set,
                    variant=None if ran is None else ran.name,
                    precision=precision,
                    run_options=limits,
                    keep_outputs=keep,
                )
                for sample_set in samples
            ]

        reports = interruptible(run_all, run_options)
        if output is not None:
            write_npz(output, _all_outputs(reports))
        if not self.output.is_json:
            for report in reports:
                print_report(report, self.output)
        as_asked = self.finish()
        if self.output.is_json:
            sample_reports = [report_json(report) for report in reports]
            content = {"as_asked": as_asked, "load_s": self.load_s, "samples": sample_reports}
            self.output.json("run", {"ran": self.runs_json(), **content})
        if output is not None:
            self.output.note(f"wrote {output}")
        is_wrong = any(report.matches is False for report in reports)
        return ExitCode.FINDINGS if is_wrong or not as_asked else ExitCode.DONE

    def _is_ours(self, component: str | None) -> bool:
        return component == self.component or (
            component is None and len(self.package.component_models) == 1
        )


def _what(package: ModelPackage) -> str:
    return f"{'model' if package.info.is_bare_model else 'package'} {quoted(package.name)}"


def _all_outputs(reports: Sequence[SampleReport]) -> dict[str, Any]:
    """Return outputs by name; with several sample sets, the set's name is a prefix."""
    if len(reports) == 1:
        return dict(reports[0].outputs)
    return {
        f"{report.sample_set.name}/{name}": value
        for report in reports
        for name, value in report.outputs.items()
    }
