"""Record the inputs and outputs of a pipeline's components, to measure each by itself.

The child's side runs the pipeline once or a few times with a session per component, on the embedded
engine if that can run it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ortpkg.api.model_package import ModelPackage
from ortpkg.foundations.errors import quoted
from ortpkg.foundations.isolation.child import ChildOutcome, call_in_child
from ortpkg.package.package_info import PackageInfo
from ortpkg.runtime.pipelines.pipeline_session import PipelineSession
from ortpkg.runtime.session.provider_list import EMBEDDED
from ortpkg.selection.measuring.exchanged_arrays import read_arrays, write_arrays
from ortpkg.selection.measuring.measured_candidates import Plan, Workload
from ortpkg.selection.measuring.workloads import component_samples, pipeline_feeds

#: Most runs that are kept of each component; a decoder runs hundreds of times.
_MOST_RUNS = 16
_MOST_PIPELINE_RUNS = 4


def recordings(
    info: PackageInfo, plan: Plan, notes: list[str], *, trust: bool, sizes: Mapping[str, int]
) -> dict[str, Workload]:
    """Return the recorded inputs and outputs of a pipeline's components that have no samples."""
    without = [
        component.name
        for component in info.components
        if not component_samples(info, component.name)
    ]
    if not info.is_pipeline or not without:
        return {}
    with tempfile.TemporaryDirectory(prefix="ortpkg-bench-") as folder:
        arguments = {
            "root": str(info.root),
            "trust": trust,
            "folder": folder,
            "sizes": dict(sizes),
        }
        answer = call_in_child(
            "ortpkg.api.bench.pipeline_recording:record",
            arguments,
            timeout_s=plan.timeout_s,
            memory_limit_nbytes=plan.memory_limit_nbytes,
        )
        if answer.outcome is not ChildOutcome.DONE:
            notes.append(
                f"the pipeline cannot be run to record its components' inputs: {answer.reason}"
            )
            return {}
        return {
            entry["component"]: Workload(
                feeds=read_arrays(Path(folder, f"{entry['number']}.feeds")),
                expected=read_arrays(Path(folder, f"{entry['number']}.outputs")),
                has_tolerances=False,
                description=(
                    f"recorded in the pipeline, fed from {answer.value['description']}; distances"
                    f" are from what {quoted(entry['variant'])} gave there on"
                    f" {quoted(entry['backend'])}"
                ),
            )
            for entry in answer.value["ran"]
            if entry["component"] in without
        }


class RecordingSession:
    """A component's session that keeps its first runs."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.feeds: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []

    def get_inputs(self) -> Any:
        return self._session.get_inputs()

    def get_outputs(self) -> Any:
        return self._session.get_outputs()

    def get_placement(self) -> Any:
        return self._session.get_placement()

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """Run the session, and keep the first runs."""
        results: list[Any] = self._session.run(output_names, input_feed, run_options)
        if len(self.feeds) < _MOST_RUNS:
            names = output_names or [declared.name for declared in self._session.get_outputs()]
            self.feeds.append(dict(input_feed))
            self.outputs.append(dict(zip(names, results, strict=True)))
        return results


def record(*, root: str, trust: bool, folder: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Run the pipeline at ``root`` and write the feeds and outputs of its components.

    Those of component n are written to ``folder``/n.feeds and n.outputs.

    Returns:
        JSON: the origin of the pipeline's inputs, and, in the pipeline's order, each component that
            ran with its variant and backend.
    """
    package = ModelPackage(root, trust=trust)
    variants = package.best_variants()
    backends = {name: _backend(variant) for name, variant in variants.items()}
    sessions = {
        name: RecordingSession(variant.create_session(backend=backends[name], verify=False))
        for name, variant in variants.items()
    }
    pipeline = PipelineSession(package.info, sessions)
    feeds, description = pipeline_feeds(package.info, pipeline.get_inputs(), sizes=sizes)
    for feed in feeds[:_MOST_PIPELINE_RUNS]:
        pipeline.run(None, feed)
    ran = []
    for number, (name, session) in enumerate(sessions.items()):
        if session.feeds:
            write_arrays(Path(folder, f"{number}.feeds"), session.feeds)
            write_arrays(Path(folder, f"{number}.outputs"), session.outputs)
            verdict = variants[name].verdict(backend=backends[name])
            backend = "" if verdict.ep_device is None else verdict.ep_device.backend
            ran.append(
                {
                    "component": name,
                    "number": number,
                    "variant": variants[name].name,
                    "backend": backend,
                }
            )
    return {"description": description, "ran": ran}


def _backend(variant: Any) -> str:
    """Return the embedded engine, which is the reference, if the variant can run there.

    Otherwise return "auto", the best available backend.
    """
    on_embedded = (
        verdict.ep_device is not None and verdict.ep_device.backend == EMBEDDED
        for verdict in variant.eligible_verdicts()
    )
    return EMBEDDED if any(on_embedded) else "auto"
