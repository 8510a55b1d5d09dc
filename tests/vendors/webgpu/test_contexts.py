"""Compiled contexts: the WebGPU execution provider makes none, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vendors.conftest import Loads
from tests.vendors.webgpu.conftest import OnCards


@pytest.mark.parametrize("form", [(), ("--for", "onnxruntime")], ids=["ortpkg", "onnxruntime"])
def test_compile_says_that_the_provider_compiles_nothing(
    gpu_package: Path, ortpkg: OnCards, loads: Loads, form: tuple[str, ...]
) -> None:
    words = ("--ep", "webgpu", "--variant", "gpu", "--name", "ctx", *form)
    done = ortpkg("compile", gpu_package, *words)
    assert done.code == 6
    assert done.err.startswith("error: WebGpuExecutionProvider")
    assert "compile" in done.err
    assert not (gpu_package / "models/classifier/ctx").exists()
    loads(f"context {' '.join(form)}".strip(), "WebGPU, ortpkg compile", "refused: it makes none")


def test_the_cache_of_contexts_leaves_the_model_as_it_is(
    gpu_package: Path, ortpkg: OnCards
) -> None:
    for _ in range(2):
        done = ortpkg("run", gpu_package, "--variant", "gpu", "--cache")
        assert "outputs match what the package expects" in done.out, done.err
