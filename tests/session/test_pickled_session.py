"""Sessions pickle as what they were made from, and are made anew in other processes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import DigestMismatchError, SessionError
from ortpkg.runtime.session import pickled_session
from tests.session.conftest import model_of

MODEL = bytes(model_of("g (float[2] x) => (float[2] y) { y = Add(x, x) }").SerializeToString())
OTHER = bytes(model_of("g (float[2] x) => (float[2] y) { y = Mul(x, x) }").SerializeToString())
X = np.array([3, 4], np.float32)
_RUN = """
import pickle, sys
import numpy as np
session = pickle.load(sys.stdin.buffer)
print(session.run(None, {"x": np.array([3, 4], np.float32)})[0].tolist())
options = session.get_session_options()
print(options.intra_op_num_threads, session.get_providers())
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL)
    return path


def session_of(source: Any, options: ortpkg.SessionOptions | None = None) -> Any:
    return ortpkg.InferenceSession(source, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("is_file", [True, False], ids=["path", "bytes"])
def test_another_process_has_the_same_session(
    file: Path, is_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    options = ortpkg.SessionOptions()
    options.intra_op_num_threads = 1
    pickled = pickle.dumps(session_of("model.onnx" if is_file else MODEL, options))
    assert (MODEL in pickled) is not is_file
    done = subprocess.run(
        [sys.executable, "-c", _RUN],
        check=False,
        input=pickled,
        capture_output=True,
        timeout=60,
        cwd="/",
    )
    assert done.stdout.decode().splitlines() == ["[6.0, 8.0]", "1 ['CPUExecutionProvider']"], (
        done.stderr
    )


def test_providers_that_were_set_later_are_those_of_the_pickle(file: Path) -> None:
    session = ortpkg.InferenceSession(file)
    session.set_providers(["CPUExecutionProvider"])
    assert pickle.loads(pickle.dumps(session)).get_providers() == ["CPUExecutionProvider"]


def test_a_link_to_a_model_is_its_file(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.onnx"
    link.symlink_to(file)
    (found,) = pickle.loads(pickle.dumps(session_of(link))).run(None, {"x": X})
    assert found.tolist() == [6, 8]


def test_a_file_that_has_changed_is_refused(file: Path) -> None:
    pickled = pickle.dumps(session_of(file))
    file.write_bytes(OTHER)
    with pytest.raises(DigestMismatchError, match="another file than that of the pickled session"):
        pickle.loads(pickled)


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    pickled = pickle.dumps(session_of(file))
    file.unlink()
    with pytest.raises(SessionError, match=r"model\.onnx' cannot be read here"):
        pickle.loads(pickled)


def test_a_large_model_in_memory_is_to_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickled_session, "MOST_PICKLED_NBYTES", len(MODEL) - 1)
    with pytest.raises(SessionError, match="save the model to a file"):
        pickle.dumps(session_of(MODEL))


def test_a_closed_session_is_not_pickled(file: Path) -> None:
    session = session_of(file)
    session.close()
    with pytest.raises(SessionError):
        pickle.dumps(session)


def test_what_cannot_be_pickled_is_named(file: Path) -> None:
    session = ortpkg.InferenceSession(file, check_contexts=lambda _: None)
    with pytest.raises(SessionError, match="its check_contexts cannot be"):
        pickle.dumps(session)


def test_a_session_of_a_package_pickles_or_says_why_not(few_digits: Path) -> None:
    session = (
        ortpkg.ModelPackage(few_digits).choose().create_session(ortpkg.ModelVariant.create_session)
    )
    pickled = pickle.dumps(session)
    assert [each.name for each in pickle.loads(pickled).get_outputs()] == ["logits"]


def test_copies_are_refused(file: Path) -> None:
    for make in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="share it"):
            make(session_of(file))
