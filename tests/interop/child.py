"""The child process: loads one release, answers walks, a line of JSON each, until its input ends.

python -m tests.interop.child LIBRARY
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.interop.onnxruntime_c_api import OnnxRuntime, OrtStatusError, Session
from tests.interop.package_openers import OpenedPackage, open_package
from tests.interop.protocol import Outcome, Reference, Refusal, Stage, Walk


def main() -> None:
    """Answers on what was standard output; whatever onnxruntime prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    runtime = OnnxRuntime(Path(sys.argv[1]))
    for line in sys.stdin:
        outcome = walk(runtime, Walk.load(line))
        answers.write(outcome.dump() + "\n")
        answers.flush()


def walk(runtime: OnnxRuntime, wanted: Walk) -> Outcome:
    """Goes as far as the release lets ``wanted`` go."""
    seen: dict[str, Any] = {"version": runtime.version}
    at = _Position()
    try:
        if wanted.is_model:
            _run_model(runtime, wanted, at, seen)
        else:
            with open_package(runtime, Path(wanted.root)) as package:
                _walk_package(package, wanted, at, seen)
    except OrtStatusError as error:
        seen["refusal"] = Refusal(stage=at.stage, code=error.code, message=error.message)
    return Outcome(**seen)


class _Position:
    """The stage that a walk is in."""

    stage = Stage.OPEN


def _walk_package(
    package: OpenedPackage, wanted: Walk, at: _Position, seen: dict[str, Any]
) -> None:
    seen |= {"schema_version": package.schema_version(), "components": package.components()}
    seen["references"] = tuple(
        _resolve(package, Path(wanted.root), reference) for reference in wanted.references
    )
    if wanted.component is None:
        return
    at.stage = Stage.SELECT
    selected = package.select(wanted.component, wanted.eps)
    if selected is not None:
        seen |= {"variant": selected[0], "directory": selected[1]}
    if not wanted.session:
        return
    at.stage = Stage.SESSION
    with package.create_session(wanted.own_options) as session:
        _run(session, wanted, at, seen)


def _run_model(runtime: OnnxRuntime, wanted: Walk, at: _Position, seen: dict[str, Any]) -> None:
    at.stage = Stage.SESSION
    with (
        runtime.session_options(wanted.eps, wanted.own_options) as options,
        runtime.create_session(Path(wanted.root), options) as session,
    ):
        _run(session, wanted, at, seen)


def _run(session: Session, wanted: Walk, at: _Position, seen: dict[str, Any]) -> None:
    at.stage = Stage.RUN
    outputs = session.run({wanted.input_name: wanted.feed})
    seen["outputs"] = {name: value.elements for name, value in outputs.items()}


def _resolve(package: OpenedPackage, root: Path, reference: Reference) -> str:
    """The path, or the error's text: a reference that cannot be resolved does not end a walk."""
    base = root / reference.base if reference.base else None
    try:
        return package.resolve(reference.text, base=base, must_exist=reference.must_exist)
    except OrtStatusError as error:
        return f"error {error.code}: {error.message}"


if __name__ == "__main__":
    main()
