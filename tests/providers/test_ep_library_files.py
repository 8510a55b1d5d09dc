"""Libraries that are wrong in native code, compiled here, behind a real onnxruntime in a child."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ortpkg.foundations.errors import ExecutionProviderError
from ortpkg.foundations.isolation.backend_probe import TIMEOUT_VARIABLE
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.runtime.providers.machine_offer import discover_ep_devices
from ortpkg.runtime.providers.user_ep_libraries import libraries_to_add
from tests.providers.fake_wheels import LIBRARY, forget_installed, write_wheel

_COMPILER = shutil.which("cc")
pytestmark = [
    pytest.mark.usefixtures("warm_processes"),
    pytest.mark.skipif(
        sys.platform != "linux"
        or _COMPILER is None
        or importlib.util.find_spec("onnxruntime") is None,
        reason="needs Linux, a C compiler and onnxruntime",
    ),
]
#: What onnxruntime calls of a library; ``STEP`` is what it does then.
_LIBRARY = """
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct { void* (*create_status)(int code, const char* message); } Api;
typedef struct { const Api* (*get_api)(uint32_t version); const char* (*version)(void); } ApiBase;

void* CreateEpFactories(
    const char* name, const ApiBase* base, const void* logger, void** factories, size_t most,
    size_t* count) {
  *count = 0;
  STEP
  return NULL;
}
void* ReleaseEpFactory(void* factory) { return NULL; }
"""
#: A library whose only factory says that it has 10,000 devices. onnxruntime has room for 8, and ends
#: the process.
_MANY_DEVICES = """
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint32_t version;
  const char* (*name)(const void*);
  const char* (*vendor)(const void*);
  void* (*devices)(void*, const void* const*, size_t, void**, size_t, size_t*);
  void* create;
  void* release;
  uint32_t (*vendor_id)(const void*);
  const char* (*own_version)(const void*);
  void* rest[64];
} Factory;

static const char* text(const void* self) { return "AcmeExecutionProvider"; }
static uint32_t number(const void* self) { return 1; }
static void* devices(
    void* self, const void* const* hardware, size_t count, void** made, size_t most, size_t* made_count) {
  *made_count = 10000;
  return NULL;
}
static Factory factory = {23, text, text, devices, NULL, NULL, number, text};

void* CreateEpFactories(
    const char* name, const void* base, const void* logger, void** factories, size_t most,
    size_t* count) {
  factories[0] = &factory;
  *count = 1;
  return NULL;
}
void* ReleaseEpFactory(void* factory) { return NULL; }
"""
_CPU = HardwareDevice(type=DeviceType.CPU, name="Host", vendor="Intel", vendor_id=0x8086)


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder for wheels, whose name has blanks and other letters."""
    folder = tmp_path / "my EPs, ü"
    folder.mkdir()
    others = [
        entry for entry in sys.path if not any(Path(entry or ".").glob("onnxruntime_*-*.dist-info"))
    ]
    monkeypatch.setattr(sys, "path", [str(folder), *others])
    monkeypatch.setenv(TIMEOUT_VARIABLE, "20s")
    forget_installed()
    yield folder
    monkeypatch.undo()
    forget_installed()


def _compile(step: str, path: Path, text: str = _LIBRARY) -> None:
    assert _COMPILER is not None
    source = path.with_suffix(".c")
    source.write_text(text.replace("STEP", step))
    subprocess.run([_COMPILER, "-shared", "-fPIC", "-o", path, source], check=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (
            'return base->get_api(1)->create_status(1, "needs onnxruntime 9.9");',
            "needs onnxruntime 9.9",
        ),
        ("abort();", "it was ended by SIGABRT"),
        ("raise(SIGSEGV);", "it was ended by SIGSEGV"),
        ("exit(0);", "it ended with status 0 without a result"),
    ],
)
def test_a_library_that_fails_is_one_note_and_leaves_other_eps_as_they_are(
    site: Path, step: str, reason: str
) -> None:
    _compile(step, write_wheel(site) / LIBRARY)
    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)))
    assert [note for note in offer.notes if "Acme" in note and reason in note], offer.notes
    assert len(offer.notes) == 1
    names = {ep_device.ep_name for ep_device in offer.ep_devices}
    assert "CPUExecutionProvider" in names
    assert "AcmeExecutionProvider" not in names


def test_a_library_that_says_that_it_has_10_000_devices_is_one_note(site: Path) -> None:
    _compile("", write_wheel(site) / LIBRARY, _MANY_DEVICES)
    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)))
    (note,) = offer.notes
    assert note.startswith("the library behind AcmeExecutionProvider (onnxruntime-ep-acme 1.2) ")
    names = {ep_device.ep_name for ep_device in offer.ep_devices}
    assert "CPUExecutionProvider" in names
    assert "AcmeExecutionProvider" not in names


def test_a_library_that_hangs_is_one_note(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, "4s")
    _compile("for (;;) pause();", write_wheel(site) / LIBRARY)
    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)))
    (note,) = offer.notes
    assert "no answer within 4 s" in note


def test_a_library_that_prints_and_has_nothing_is_one_note(
    site: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _compile('write(1, "hello\\n", 6);', write_wheel(site) / LIBRARY)
    offer = discover_ep_devices(Machine(os="linux", hardware=(_CPU,)))
    assert len(offer.notes) == 1
    assert "AcmeExecutionProvider" in offer.notes[0]
    assert capfd.readouterr().out == ""


def test_a_library_that_is_no_library_or_for_no_onnxruntime_is_not_added(tmp_path: Path) -> None:
    other = tmp_path / "libonnxruntime_acme.so"
    assert _COMPILER is not None
    (tmp_path / "a.c").write_text("int acme(void) { return 1; }")
    subprocess.run([_COMPILER, "-shared", "-fPIC", "-o", other, tmp_path / "a.c"], check=True)
    with pytest.raises(ExecutionProviderError, match=r"is not added: .*CreateEpFactories"):
        libraries_to_add(str(other), ("acme",))
    os.truncate(other, 100)
    with pytest.raises(ExecutionProviderError, match=r"is not added: .*refuses it"):
        libraries_to_add(str(other), ("acme",))
