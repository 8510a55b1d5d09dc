"""Options of sessions and runs × odd values: refused, read back, obeyed as in onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from tests.interop.python_api.behaviour import CPU, X, bytes_of

onnxruntime: Any = pytest.importorskip("onnxruntime", minversion="1.31")
pytestmark = pytest.mark.interop

VALUES: tuple[Any, ...] = (
    *(-5, -2, -1, 0, 1, 2, 3, 4, 5, 7, 99, 100, 2**31, 2**63, 2**70, True, False, None),
    *(
        "",
        "x",
        "1",
        "/nonexistent/folder/f",
        "a" * 9000,
        b"b",
        1.0,
        1.5,
        float("nan"),
        [],
        [1],
        {},
        object,
    ),
    *(np.int64(1), np.bool_(True), np.float32(1)),
)
_MODEL = bytes_of("g (float[3,2] x) => (float[3,2] y) { y = Abs(x) }")
_ENUMERATIONS = {"graph_optimization_level", "execution_mode", "execution_order"}


def options_of(kind: str) -> list[str]:
    made = getattr(onnxruntime, kind)()
    return [
        name for name in dir(made) if not name.startswith("_") and not callable(getattr(made, name))
    ]


def named(kind: type) -> set[str]:
    """Its name and those of what it inherits from; those of a status are called alike in both."""
    return {each.__name__ for each in kind.__mro__}


def outcome_of_setting(ort: Any, kind: str, name: str, value: Any) -> tuple[Any, Any]:
    """(the options, what they say then); (None, exception) where they refuse the value."""
    made = getattr(ort, kind)()
    try:
        setattr(made, name, value)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return None, error
    found = getattr(made, name)
    return made, found if isinstance(found, str) else int(found)


def outcome_of_running(ort: Any, options: Any) -> BaseException | None:
    """What a session with these options raises while it is made or runs."""
    is_of_run = isinstance(options, ort.RunOptions)
    try:
        session = ort.InferenceSession(
            _MODEL, None if is_of_run else options, providers=CPU, enable_fallback=0
        )
        session.run(None, {"x": X}, options if is_of_run else None)
        if not is_of_run and options.enable_profiling:
            session.end_profiling()
    except Exception as error:  # noqa: BLE001
        return error
    return None


def differs_on_purpose(name: str, value: Any) -> bool:
    """What docs/onnxruntime_programs.md says of options."""
    if (
        name in _ENUMERATIONS
        and isinstance(value, int | np.integer)
        and not isinstance(value, bool)
    ):
        # the number of a member is taken for it
        return value in set(getattr(ortpkg.SessionOptions(), name).__class__)
    # Sessions here share threads only where there are some; without, each has its own.
    return name == "use_per_session_threads" and not value


def cases() -> Iterator[Any]:
    for kind in ("SessionOptions", "RunOptions"):
        for name in options_of(kind):
            yield pytest.param(kind, name, id=f"{kind}.{name}")


@pytest.mark.parametrize(("kind", "name"), [*cases()])
def test_odd_values_end_as_in_onnxruntime(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tried: set[Any] = set()
    for value in VALUES:
        if differs_on_purpose(name, value):
            continue
        (theirs, their_value), (ours, our_value) = (
            outcome_of_setting(ort, kind, name, value) for ort in (onnxruntime, ortpkg)
        )
        if theirs is None:
            assert ours is None, value
            assert type(their_value).__name__ in named(type(our_value)), value
            continue
        assert our_value == their_value, value
        if our_value in tried:
            continue
        tried.add(our_value)
        raised, found = outcome_of_running(onnxruntime, theirs), outcome_of_running(ortpkg, ours)
        if raised is None:
            assert found is None, value
        else:
            assert type(raised).__name__ in named(found.__class__), (value, raised, found)


@pytest.mark.parametrize("prefix", ["pp", "folder/", ""])
def test_profiles_are_named_as_onnxruntime_names_them(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    digits = "0123456789"
    names = []
    for ort in (onnxruntime, ortpkg):
        options = ort.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, prefix
        session = ort.InferenceSession(_MODEL, options, providers=CPU)
        session.run(None, {"x": X})
        path = session.end_profiling()
        assert Path(path).is_file()
        assert session.end_profiling() == ""
        stem, _, milliseconds = path.removesuffix(".json").rpartition("_")
        assert 0 <= int(milliseconds) < 1000
        names.append("".join("0" if each in digits else each for each in stem))
    assert names[0] == names[1] == f"{prefix}_0000-00-00_00-00-00"


def test_profiles_that_begin_together_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ortpkg.runtime.engine.profiler.time.time_ns", lambda: 1_700_000_000_999_000_000
    )
    options = ortpkg.SessionOptions(enable_profiling=True, profile_file_prefix=str(tmp_path / "p"))
    sessions = [ortpkg.InferenceSession(_MODEL, options, providers=CPU) for _ in range(2)]
    paths = {session.end_profiling() for session in sessions}
    assert len(paths) == len(list(tmp_path.iterdir())) == 2
