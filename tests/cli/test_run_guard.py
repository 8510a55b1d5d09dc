"""``ortpkg run`` ends in time whatever a native library does, and says why."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import ortpkg
from ortpkg.foundations.host.memory import resident_nbytes

pytestmark = [
    pytest.mark.usefixtures("warm_processes"),
    pytest.mark.skipif(sys.platform != "linux", reason="memory and signals of another process"),
]

#: A kernel that takes long, on a matrix that no file has to hold.
LONG = """
<ir_version: 10, opset_import: ["" : 17]>
long (float[1, 1] x, int64[2] n) => (float total) {
    a = Expand(x, n)
    b = MatMul(a, a)
    total = ReduceSum<keepdims = 0>(b)
}
"""
#: Takes 4 bytes per element several times.
HUNGRY = """
<ir_version: 10, opset_import: ["" : 17]>
hungry (float[1] x, int64[1] n) => (float total) {
    a = Expand(x, n)
    b = Exp(a)
    c = Sin(b)
    total = ReduceSum<keepdims = 0>(c)
}
"""


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that multiplies a large matrix in onnxruntime: tens of seconds on two cores."""
    return _command(tmp_path_factory.mktemp("long"), LONG, [10_000, 10_000])


@pytest.fixture(scope="module")
def hungry_run(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that makes gigabytes of a few bytes in onnxruntime."""
    return _command(tmp_path_factory.mktemp("hungry"), HUNGRY, [700_000_000])


def _command(folder: Path, text: str, shape: list[int]) -> list[str]:
    pytest.importorskip("onnxruntime")
    (folder / "m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    ortpkg.create(folder / "p", [ortpkg.NewVariant(model=folder / "m.onnx", ep="cpu")])
    np.save(folder / "x.npy", np.ones((1,) * len(shape), np.float32))
    np.save(folder / "n.npy", np.array(shape, np.int64))
    files = [word for name in "xn" for word in ("-i", f"{name}={folder / name}.npy")]
    return [
        sys.executable,
        "-m",
        "ortpkg",
        "run",
        str(folder / "p"),
        "--backend",
        "onnxruntime",
        "--threads",  # those of a machine with many would take its time from other tests
        "1",
        *files,
    ]


def _wait_until_it_multiplies(pid: int) -> None:
    """Waits until the process that runs the model holds the whole matrix beside the library."""
    deadline_s = time.monotonic() + 60
    while max(map(resident_nbytes, _family(pid))) < 4 * 10_000 * 10_000 + 40_000_000:
        assert time.monotonic() < deadline_s, "it never came to multiply"
        time.sleep(0.05)


def _family(pid: int) -> list[int]:
    """The process and its children."""
    found = [pid]
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = (
                (folder / "stat")
                .read_text(encoding="utf-8", errors="replace")
                .rpartition(")")[2]
                .split()
            )
            found += [int(folder.name)] if int(fields[1]) == pid else []
    return found


@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
def test_a_run_in_a_native_kernel_ends_at_its_time(long_run: list[str], how: str) -> None:
    start = time.monotonic()
    done = subprocess.run(
        [*long_run, "--timeout", "2", how, "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 5
    assert "passed" in json.loads(done.stdout)["error"]["message"]
    assert "time limit" in json.loads(done.stdout)["error"]["message"]
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
def test_a_run_in_a_native_kernel_ends_at_its_memory(hungry_run: list[str], how: str) -> None:
    limit = ["--memory-limit", "300000000"]
    done = subprocess.run(
        [*hungry_run, *limit, how], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 5
    assert "memory limit of 300 MB" in done.stderr


@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
def test_an_interrupt_ends_a_run_in_a_native_kernel(long_run: list[str], how: str) -> None:
    process = subprocess.Popen([*long_run, how], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "variant" in process.stderr.readline()  # what it says before it runs
    _wait_until_it_multiplies(process.pid)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert rest == "cancelled\n"
    assert time.monotonic() - start < 20
