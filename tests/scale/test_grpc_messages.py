"""Large messages of gRPC, in a process that has KServe's messages and no client's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.scale.serving_processes import ROOT

pytestmark = [pytest.mark.scale, pytest.mark.shows("serving"), pytest.mark.timeout(300)]

TESTS = Path(__file__).with_name("grpc_messages.py")


def test_large_messages_of_grpc_are_written_off_the_event_loop_and_read_in_blocks() -> None:
    command = [sys.executable, "-m", "pytest", "-m", "scale", "-p", "no:cacheprovider", str(TESTS)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert "10 passed" in result.stdout
