"""What Ray prints stays out of results."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from ortpkg.ray.output_streams import for_results_alone, quiet_stderr


def test_what_rays_threads_print_is_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    with for_results_alone():
        thread = threading.Thread(target=lambda: print("a worker died"), name="ray_listener")
        thread.start()
        thread.join()
        print("a result")
    print("another")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("a result\nanother\n", "a worker died\n")


def test_native_code_is_not_heard_while_it_starts(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_stderr():
        os.write(2, b"my settings\n")
    sys.stderr.write("a warning\n")
    assert capfd.readouterr().err == "a warning\n"
