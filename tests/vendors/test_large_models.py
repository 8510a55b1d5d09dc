"""Weights of more than 2 GiB, of a sparse file, through OpenVINO's wheel and beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.large_models import save_model
from tests.vendors.plain_onnxruntime import REPOSITORY
from tests.vendors.test_openvino import OPENVINO, needs_intel

pytestmark = [pytest.mark.vendors, pytest.mark.timeout(900)]

_LOOKUP = """
import sys
import numpy as np
import ortpkg
with ortpkg.InferenceSession(sys.argv[1], providers=[sys.argv[2]], backend="onnxruntime") as session:
    (partition,) = session.get_partitions()
    print(partition.provider, session.run(None, {"ids": np.arange(4)})[0].any())
"""


@pytest.mark.parametrize(
    "ep_name", [pytest.param(OPENVINO, marks=needs_intel), "CPUExecutionProvider"]
)
def test_a_model_of_more_than_2_gib_is_run(tmp_path: Path, ep_name: str) -> None:
    if min(psutil.virtual_memory().available, shutil.disk_usage(tmp_path).free) < 6 << 30:
        pytest.skip("too little memory or room for a model of 2.3 GiB")
    model = save_model(tmp_path, table_nbytes=2_300 << 20, products=0)
    done = subprocess.run(
        [sys.executable, "-c", _LOOKUP, str(model), ep_name],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [f"{ep_name} False"], done.stderr
