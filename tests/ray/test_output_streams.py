"""What Ray prints stays out of results."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from ortpkg.scale.ray.output_streams import quiet_stderr, results_only

DEATH = (
    "\x1b[33m(raylet)\x1b[0m A worker died. To troubleshoot the problem, look there.\nAnd there."
)


def test_what_rays_threads_print_is_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    def say() -> None:
        print(DEATH)
        print(DEATH)

    with results_only(lambda: print("What was kept back.")):
        thread = threading.Thread(target=say, name="ray_listener")
        thread.start()
        thread.join()
        print("a result")
    print("another")
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "a result\nanother\n",
        "Ray: A worker died.\nRay: What was kept back.\n",
    )


def test_native_code_is_not_heard_while_it_starts(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_stderr():
        os.write(2, b"my settings\n")
    sys.stderr.write("a warning\n")
    assert capfd.readouterr().err == "a warning\n"
