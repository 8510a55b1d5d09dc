"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import ortpkg
from ortpkg.foundations.host.cores import usable_cores
from tests.npz import arrays_in
from tests.warm.popen import warm_popen

#: Ends what pytest-timeout cannot end; runs a part of large families of cases.
pytest_plugins = ("tests.ending", "tests.sampling")

#: A shape function that cannot cope with a node is a mistake of ours: no session is made then, nor
#: in child processes. Tests of what users meet instead, a warning, take it away
#: (``monkeypatch.delenv``).
os.environ["ORTPKG_STRICT_SHAPES"] = "1"

#: Of the digits package: more than are shown, and one that every variant gets wrong.
FEW_SAMPLES = (*range(12), 208)

_ROOT = Path(__file__).resolve().parents[1]
_OF_NO_USER = Path(tempfile.mkdtemp(prefix="ortpkg-tests-"))

#: What was benchmarked or put into quarantine on a developer's machine must not decide what tests
#: see.
os.environ["ORTPKG_STATE_DIR"] = str(_OF_NO_USER / "records")

#: Tests that name no execution provider are about the embedded engine, whatever is installed beside
#: it.
os.environ["ORTPKG_PROVIDERS"] = "CPUExecutionProvider"

#: A developer's own settings must not decide it either.
os.environ["ORTPKG_CONFIG_DIR"] = str(_OF_NO_USER / "settings")
for _name in ("POLICY", "BACKEND", "TRUST", "TRUST_POLICY", "THREADS", "STORE"):
    os.environ.pop(f"ORTPKG_{_name}", None)

#: Nor their credentials for registries, nor the way to them.
os.environ["DOCKER_CONFIG"] = str(_OF_NO_USER / "docker")
for _name in ("DOCKER_AUTH_CONFIG", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
    os.environ.pop(_name, None)
    os.environ.pop(_name.lower(), None)

#: A run starts thousands of processes: where no bytecode may be kept, each compiles all of ortpkg
#: anew, which takes longer than what the test is about.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


#: On a busy machine anything takes long, and says nothing of the examples.
settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")


def pytest_configure() -> None:
    """Makes no garbage collection of modules and of ten thousand tests, which all stay."""
    gc.disable()


@pytest.hookimpl(optionalhook=True)  # not every environment for tests has xdist
def pytest_xdist_auto_num_workers() -> int:
    """Says how many workers ``-n auto`` starts: one more than there are cores.

    A fifth of the time of all tests is spent waiting, for processes that are to end at a limit.
    """
    return usable_cores() + 1


def pytest_unconfigure() -> None:
    """What tests have kept there is theirs: the next run begins with nothing."""
    shutil.rmtree(_OF_NO_USER, ignore_errors=True)


def pytest_collection_finish() -> None:
    """Keeps garbage collection from looking at them later, too."""
    gc.collect()
    gc.freeze()
    gc.enable()


#: Module of tests → its random generators, with their states before the first test.
_generators: dict[str, list[tuple[np.random.Generator, Mapping[str, Any]]]] = {}


@pytest.fixture(autouse=True)
def same_random_numbers_in_every_order(request: pytest.FixtureRequest) -> None:
    """Reset the random generators of a test's module, so that the order of tests is no matter."""
    if request.module.__name__ not in _generators:
        _generators[request.module.__name__] = [
            (value, value.bit_generator.state)
            for value in vars(request.module).values()
            if isinstance(value, np.random.Generator)
        ]
    for generator, state in _generators[request.module.__name__]:
        generator.bit_generator.state = state


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    """What ``fsync`` is for, a loss of power, no test sees.

    Waiting for it was a third of all that changed packages.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which refuses what is no open file, too
        yield


@pytest.fixture(scope="session", autouse=True)
def _locks_of_no_user() -> Iterator[None]:
    """Locks of packages lie in a folder of this run, not of the user."""
    with pytest.MonkeyPatch.context() as patch:
        folder = _OF_NO_USER / "locks"
        patch.setattr("ortpkg.foundations.storage.package_lock.locks_directory", lambda: folder)
        yield


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory in which stands what the backends of this machine answered.

    For copies: a process with a new cache asks them again, which takes longer than most of what
        such a process is for.
    """
    folder = tmp_path_factory.mktemp("answers")
    environment = {**os.environ, "ORTPKG_CACHE_DIR": str(folder), "ORTPKG_PROBE_TIMEOUT": "300"}
    words = [sys.executable, "-m", "ortpkg", "devices", "--json"]
    with warm_popen():
        subprocess.run(words, env=environment, cwd=_ROOT, capture_output=True, check=True)
    return folder


@pytest.fixture(scope="session")
def few_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits package with a few of its 360 samples, for tests that are not about their number.

    To run all of them takes longer than everything else that a command does with the package.
    """
    package = tmp_path_factory.mktemp("few") / "digits.ortpackage"
    shutil.copytree(_ROOT / "sample_packages" / package.name, package)
    for path in (package / "samples").glob("*.npz"):
        few = {name: array[list(FEW_SAMPLES)] for name, array in arrays_in(path).items()}
        np.savez_compressed(path, **few)
    ortpkg.record_digests(package)
    return package


@pytest.fixture
def warm_processes() -> Iterator[None]:
    """Copies child processes from one that has loaded everything (``tests/warm``).

    For tests that are not about their start.
    """
    with warm_popen():
        yield
