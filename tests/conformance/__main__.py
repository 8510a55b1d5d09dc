"""Runs onnx's backend cases on each provider that a session may pick, and on its peers: the table.

Our engine, machine code, OpenVINO, the installed onnxruntime inside our session, the session that
names no provider; onnx.reference and onnxruntime by themselves.

``python -m tests.conformance [--suite S]... [--runtime R]... [--case PATTERN] [--record]``. Exit
status 1 where a case fails on one of ours that is not a known failure, or where a known failure
passes. ``--record`` keeps the counts for docs/operators.md.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from tests.conformance.cases import SUITES, Case, load_cases
from tests.conformance.known_failures import (
    ILL_CONDITIONED,
    KNOWN_FAILURES,
    KNOWN_FAILURES_OF_ONNXRUNTIME,
    RANDOM_CASES,
)
from tests.conformance.runtimes import RUNTIMES, failure

_KNOWN = {
    "ortpkg": KNOWN_FAILURES,
    "machine code": KNOWN_FAILURES,
    "OpenVINO": KNOWN_FAILURES,
    "onnxruntime's CPU": {**KNOWN_FAILURES, **KNOWN_FAILURES_OF_ONNXRUNTIME},
    "default": KNOWN_FAILURES,
}
COUNTS = Path(__file__).parent / "counts.json"
_MOST_REASON = 200


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "--suite", action="append", choices=SUITES, help="only this suite (repeatable)"
    )
    parser.add_argument(
        "--runtime", action="append", choices=list(RUNTIMES), help="only this runtime (repeatable)"
    )
    parser.add_argument(
        "--case", default="", help="only cases whose name matches this regular expression"
    )
    parser.add_argument(
        "--record", action="store_true", help="keep the counts for docs/operators.md"
    )
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # who leaves which node, case for case
    warnings.simplefilter("ignore")  # what the peers warn about is not ours to mend
    suites = options.suite or list(SUITES)
    runtimes = options.runtime or list(RUNTIMES)
    failures: dict[str, dict[str, str]] = {runtime: {} for runtime in runtimes}
    counts = dict.fromkeys(suites, 0)
    for suite in suites:
        cases = [case for case in load_cases(suite) if re.search(options.case, case.name)]
        chosen = [case for case in cases if case.id not in RANDOM_CASES]
        counts[suite] = len(chosen)
        for runtime in runtimes:
            failures[runtime].update(_run_all(runtime, chosen))
    _print_failures(failures)
    _print_table(counts, failures)
    if options.record:
        record_counts(sum(counts.values()), {name: len(those) for name, those in failures.items()})
    return (
        max(
            _status(
                failures[runtime], [each for each in known if re.search(options.case, each)], suites
            )
            for runtime, known in _KNOWN.items()
            if runtime in failures
        )
        if set(_KNOWN) & set(failures)
        else 0
    )


def record_counts(cases: int, failures: Mapping[str, int]) -> None:
    """Keeps how many cases each runtime passes, with the versions that were asked."""
    packages = ("onnx", "onnxruntime", "openvino", "llvmlite")
    document = {
        "cases": cases,
        "passed": {name: cases - count for name, count in failures.items()},
        "versions": {name: version(name) for name in packages},
    }
    COUNTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _run_all(runtime: str, cases: Sequence[Case]) -> dict[str, str]:
    found = {}
    for index, case in enumerate(cases):
        if sys.stderr.isatty():
            print(f"\r{runtime}: {case.suite} {index + 1}/{len(cases)} ", end="", file=sys.stderr)
        reason = failure(RUNTIMES[runtime], case)
        if reason is not None:
            found[case.id] = reason
    return found


def _print_failures(failures: dict[str, dict[str, str]]) -> None:
    for runtime, reasons in failures.items():
        for case, reason in reasons.items():
            print(f"{runtime}: {case}: {reason[:_MOST_REASON]}")


def _print_table(counts: dict[str, int], failures: dict[str, dict[str, str]]) -> None:
    runtimes = list(failures)
    print(f"\n{'suite':<20}{'cases':>7}" + "".join(f"{runtime:>22}" for runtime in runtimes))
    for suite in [*counts, "all"]:
        count = sum(counts.values()) if suite == "all" else counts[suite]
        line = f"{suite:<20}{count:>7}"
        for runtime in runtimes:
            failed = sum(suite in ("all", case.split("/")[0]) for case in failures[runtime])
            passed = count - failed
            line += f"{passed:>13} ({passed / max(count, 1):6.1%})"
        print(line)
    print(f"\n{len(RANDOM_CASES)} cases that draw random numbers are left out.")


def _status(ours: dict[str, str], known: Sequence[str], suites: Sequence[str]) -> int:
    unexpected = sorted(set(ours) - set(known) - set(ILL_CONDITIONED))
    mended = sorted(case for case in set(known) - set(ours) if case.split("/")[0] in suites)
    for case in unexpected:
        print(f"not among the known failures: {case}")
    for case in mended:
        print(f"a known failure that passes: {case}")
    return 1 if unexpected or mended else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
