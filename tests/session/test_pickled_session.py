"""Sessions pickle as what they were made from, and are made anew in other processes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
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


def test_a_file_that_was_changed_since_the_session_was_made_is_not_pickled(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = session_of("model.onnx")
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(session)).run(None, {"x": X})[0].tolist() == [6, 8]
    file.write_bytes(OTHER)
    with pytest.raises(SessionError, match=r"was changed after the session was made; make the"):
        pickle.dumps(session)
    monkeypatch.chdir(tmp_path)
    session.set_providers(["CPUExecutionProvider"])  # reads the model as it is now
    assert pickle.loads(pickle.dumps(session)).run(None, {"x": X})[0].tolist() == [9, 16]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """External data of ``file``, in a folder that is a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "net").symlink_to("real")
    proto = model_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    weights = np.array([1, 2], np.float32)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(
        proto,
        tmp_path / "net/model.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    return tmp_path / "net/weights.bin"


def test_changed_external_data_is_refused(data: Path) -> None:
    session = session_of(data.with_name("model.onnx"))
    pickled = pickle.dumps(session)
    assert pickle.loads(pickled).run(None, {"x": X})[0].tolist() == [4, 6]
    assert b"real" not in pickled  # links may lead elsewhere on another machine
    content = data.read_bytes()
    data.unlink()
    with pytest.raises(SessionError, match=r"weights\.bin' cannot be read here"):
        pickle.loads(pickled)
    data.write_bytes(content)
    assert pickle.loads(pickled).run(None, {"x": X})[0].tolist() == [4, 6]
    data.write_bytes(np.array([5, 5], np.float32).tobytes())
    with pytest.raises(DigestMismatchError, match=r"weights\.bin' is another file"):
        pickle.loads(pickled)
    with pytest.raises(SessionError, match=r"weights\.bin' was changed after the session"):
        pickle.dumps(session)


def test_large_external_data_is_compared_by_its_size(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickled_session, "MOST_HASHED_NBYTES", 7)
    pickled = pickle.dumps(session_of(data.with_name("model.onnx")))
    data.write_bytes(np.array([5, 5], np.float32).tobytes())
    assert pickle.loads(pickled).run(None, {"x": X})[0].tolist() == [8, 9]
    data.write_bytes(np.array([5, 5, 5], np.float32).tobytes())
    with pytest.raises(DigestMismatchError, match=r"weights\.bin' is another file"):
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
