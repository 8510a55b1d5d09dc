"""A thread's signal handlers run on after libraries have come, changed its stack for them, and gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sigaltstack(2)")

_ROOT = Path(__file__).parents[2]

_KEPT = """
import ctypes, mmap, signal
from ortpkg.foundations.host.signal_stack import keep_signal_stack
from ctypes import c_int, c_size_t, c_void_p

class Stack(ctypes.Structure):
    _fields_ = (("address", c_void_p), ("flags", c_int), ("nbytes", c_size_t))

libc = ctypes.CDLL(None)

def use(address, nbytes):
    libc.sigaltstack(ctypes.byref(Stack(address, 0, nbytes)), None)

def used():
    stack = Stack()
    libc.sigaltstack(None, ctypes.byref(stack))
    return stack.address

memory = mmap.mmap(-1, 1 << 20)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
if OWN:
    use(start, 1 << 19)
before = used()
with keep_signal_stack():
    use(8, 1 << 19)  # an address where nothing is
assert used() == before
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
signal.raise_signal(signal.SIGUSR1)
"""

_SESSIONS = """
import gc, signal, threading
import numpy as np, onnx.parser
from ortpkg.runtime.session.inference_session import InferenceSession

model = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Exp(x) }'
).SerializeToString()

def open_session():
    session = InferenceSession(model, providers=["openvino"])
    session.run(None, {"x": np.ones(2, np.float32)})
    return session

def close_first_to_last(sessions):
    while sessions:
        sessions.pop(0).close()
        gc.collect()

sessions = [open_session() for _ in range(COUNT)]
closer = threading.Thread(target=close_first_to_last, args=(sessions,))
if ON_A_THREAD:
    closer.start(), closer.join()
else:
    close_first_to_last(sessions)
signal.signal(signal.SIGINT, lambda *_: print("handled"))
signal.raise_signal(signal.SIGINT)
"""


def _output_of(program: str, **values: object) -> str:
    """Run a program with these global values; returns what it prints."""
    head = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    done = subprocess.run(
        [sys.executable, "-c", head + program],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.strip()


@pytest.mark.parametrize("own", [False, True], ids=["none", "one"])
def test_the_signal_stack_of_before_is_restored(own: bool) -> None:
    assert _output_of(_KEPT, OWN=own) == "handled"


@pytest.mark.parametrize(
    ("count", "on_a_thread"), [(2, False), (1, True)], ids=["first to last", "on another thread"]
)
def test_a_signal_after_sessions_on_openvino_are_closed_reaches_its_handler(
    count: int, on_a_thread: bool
) -> None:
    pytest.importorskip("openvino")
    assert _output_of(_SESSIONS, COUNT=count, ON_A_THREAD=on_a_thread) == "handled"
