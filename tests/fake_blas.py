"""Stand-in for the linear-algebra library that counts its threads."""

from __future__ import annotations

import pytest

from ortpkg.runtime.kernels import blas_threads


class FakeBlas:
    """Library of eight threads that records the thread counts that are set."""

    def __init__(self) -> None:
        self.counts = [8]

    def get_num_threads(self) -> int:
        return self.counts[-1]

    def set_num_threads(self, count: int) -> None:
        self.counts.append(count)


def install_fake_blas(monkeypatch: pytest.MonkeyPatch) -> FakeBlas:
    """Replace the linear-algebra library of kernels by a fake, and return the fake."""
    library = FakeBlas()
    controller = type("Controller", (), {"lib_controllers": [library]})()
    monkeypatch.setattr(blas_threads, "_controller", lambda: controller)
    return library
