"""onnxruntime's WebGPU execution provider on a GPU in software.

``make vendors`` runs this folder on one (``tests.vendors.software_gpu``): the tests, and every
process that they start, see an NVIDIA card, and SwiftShader computes. Tests that need other cards
start processes with these.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.done import Done
from tests.vendors.software_gpu import REPOSITORY, Card, is_on_software_gpu, on_software_gpu

WEBGPU = "WebGpuExecutionProvider"
DIGITS = REPOSITORY / "sample_packages/digits.ortpackage"
TINYCHAR = REPOSITORY / "sample_packages/tinychar.ortpackage"
#: For processes that somebody stops where they hang.
_LIMIT_S = 280
_WHEEL = "onnxruntime_ep_webgpu"
collect_ignore_glob = [] if importlib.util.find_spec(_WHEEL) else ["test_*.py"]

#: ``ortpkg(WORD..., cards=...)``; None: the card that the tests see.
OnCards = Callable[..., Done]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip these tests where they do not run on a GPU in software."""
    reason = (
        "run on a GPU in software: python -m tests.vendors.software_gpu -- python -m pytest ..."
    )
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vendors)
            item.add_marker(pytest.mark.timeout(600))
            if not is_on_software_gpu():
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> OnCards:
    """Runs ``python WORD...`` in a process, on the cards that are named."""
    folder = tmp_path_factory.mktemp("machine")

    def run(
        *words: object, cards: Sequence[Card] | None = None, variables: dict[str, str] | None = None
    ) -> Done:
        command = [sys.executable, *map(str, words)]
        if cards is not None:
            command = on_software_gpu(command, cards)
        environment = {
            **os.environ,
            "ORTPKG_CACHE_DIR": str(folder / "cache"),
            "ORTPKG_STATE_DIR": str(folder / "state"),
            "COLUMNS": "200",
            **(variables or {}),
        }
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)

    return run


@pytest.fixture(scope="session")
def ortpkg(program: OnCards) -> OnCards:
    """Runs ``ortpkg WORD...`` in a process, on the cards that are named."""

    def run(
        *words: object, cards: Sequence[Card] | None = None, variables: dict[str, str] | None = None
    ) -> Done:
        return program("-m", "ortpkg", *words, cards=cards, variables=variables)

    return run


@pytest.fixture
def gpu_package(package: Path, ortpkg: OnCards) -> Path:
    """The digits package with a variant for the GPU."""
    model = DIGITS / "models/classifier/cpu-fp32/model.onnx"
    words = ("--component", "classifier", "--variant", "gpu", "--ep", "webgpu", "--device", "gpu")
    done = ortpkg("add-variant", package, model, *words)
    assert done.code == 0, done.err
    return package
