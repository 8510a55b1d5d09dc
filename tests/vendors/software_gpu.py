"""A GPU in software: runs a command where this machine has graphics cards that a CPU plays.

``python -m tests.vendors.software_gpu [--card VENDOR:DEVICE[:DRIVER]]... -- COMMAND...``

Two things make a GPU of it:

- *SwiftShader*, a Vulkan driver that computes on the CPU. Debian's chromium brings it. The
  execution provider of ``onnxruntime-ep-webgpu`` computes with Vulkan, and takes it.
- *Cards in /sys*, where onnxruntime and ortpkg look for hardware. The command gets a mount
  namespace of its own with its own /sys/class and /sys/bus/pci/devices, so that nothing of it
  shows outside. That takes root, or a kernel that lets users make namespaces.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
#: The description of SwiftShader for Vulkan's loader; tests of other drivers name theirs.
_ICD_VARIABLE = "ORTPKG_TEST_VULKAN_ICD"
_ICD_FILES = (
    "/usr/lib/chromium/vk_swiftshader_icd.json",
    "/usr/lib/chromium-browser/vk_swiftshader_icd.json",
    "/opt/google/chrome/vk_swiftshader_icd.json",
)
_LOADER = "libvulkan.so.1"
#: Set for commands that run on it.
_ON_IT = "ORTPKG_TEST_ON_SOFTWARE_GPU"
#: Where cards are, as the kernel lays them out: /sys/class/drm/card0/device is a link to these.
_CLASSES, _FUNCTIONS = Path("/sys/class"), Path("/sys/bus/pci/devices")
_INSIDE = "--inside"
#: Three bytes: display controller, VGA compatible, no programming interface.
_DISPLAY_CLASS = "0x030000"


class Card(NamedTuple):
    """Graphics card on the PCI bus, as the kernel lists it.

    Attributes:
        vendor, device: PCI numbers.
        driver: name of the kernel's driver.
    """

    vendor: int
    device: int
    driver: str

    @classmethod
    def of_text(cls, text: str) -> Card:
        """Read ``10de:2684:nvidia``; ValueError for another form."""
        vendor, device, driver = (*text.split(":"), "virtual")[:3]
        return cls(int(vendor, 16), int(device, 16), driver)

    def __str__(self) -> str:
        return f"{self.vendor:04x}:{self.device:04x}:{self.driver}"


#: Cards of three vendors, for tests that need one or several.
NVIDIA = Card(0x10DE, 0x2684, "nvidia")
AMD = Card(0x1002, 0x744C, "amdgpu")
INTEL = Card(0x8086, 0x56A0, "xe")


def is_on_software_gpu() -> bool:
    """Return True in a command that :func:`on_software_gpu` runs."""
    return os.environ.get(_ON_IT) == "1"


def missing_software_gpu() -> str:
    """Return what this machine lacks for a GPU in software; "" where nothing is missing."""
    if sys.platform != "linux":
        return "cards in /sys exist on Linux alone"
    if not _icd_file():
        return "no SwiftShader (on Debian: apt-get install chromium)"
    if not _has_loader() and not Path(_icd_file()).with_name(_LOADER).is_file():
        return f"no {_LOADER} (on Debian: apt-get install libvulkan1)"
    tried = subprocess.run([*_namespace(), "true"], capture_output=True, text=True, check=False)
    return f"no mount namespace: {tried.stderr.strip()}" if tried.returncode else ""


def on_software_gpu(command: Sequence[str], cards: Sequence[Card] = (NVIDIA,)) -> list[str]:
    """Return a command line that runs ``command`` on a machine that seems to have ``cards``.

    Run it with the variables of :func:`software_gpu_variables`, in any directory.
    """
    card_options = [word for card in cards for word in ("--card", str(card))]
    return [*_namespace(), sys.executable, __file__, _INSIDE, *card_options, "--", *command]


def software_gpu_variables() -> dict[str, str]:
    """Return the additional environment variables for :func:`on_software_gpu`."""
    icd = Path(_icd_file())
    variables = {"VK_ICD_FILENAMES": str(icd), "VK_DRIVER_FILES": str(icd), _ON_IT: "1"}
    if not _has_loader():  # chromium has one of its own
        rest = os.environ.get("LD_LIBRARY_PATH", "")
        variables["LD_LIBRARY_PATH"] = ":".join(filter(None, (rest, str(icd.parent))))
    return variables


def _icd_file() -> str:
    named = os.environ.get(_ICD_VARIABLE, "")
    return next((path for path in (named, *_ICD_FILES) if path and Path(path).is_file()), "")


def _has_loader() -> bool:
    try:
        ctypes.CDLL(_LOADER)
    except OSError:
        return False
    return True


def _namespace() -> list[str]:
    unshare = shutil.which("unshare") or "unshare"
    return [unshare, "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def _show_cards(cards: Sequence[Card]) -> None:
    """Cover /sys/class and /sys/bus/pci/devices of this namespace with folders of these cards."""
    for folder in (_CLASSES, _FUNCTIONS):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
    drm = _CLASSES / "drm"
    drm.mkdir()
    for number, card in enumerate(cards):
        function = _FUNCTIONS / f"0000:{number + 1:02x}:00.0"
        function.mkdir()
        files = {
            "vendor": f"0x{card.vendor:04x}",
            "device": f"0x{card.device:04x}",
            "class": _DISPLAY_CLASS,
            "uevent": f"DRIVER={card.driver}\nPCI_SLOT_NAME={function.name}",
        }
        for name, text in files.items():
            (function / name).write_text(f"{text}\n")
        (function / "driver").symlink_to(f"../../drivers/{card.driver}")
        (drm / f"card{number}").mkdir()
        (drm / f"card{number}/device").symlink_to(function)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--card", dest="cards", action="append", type=Card.of_text, default=[])
    parser.add_argument(_INSIDE, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--missing", action="store_true", help="print what is missing, and end")
    parser.add_argument("command", nargs="*")
    arguments = parser.parse_args()
    if arguments.missing:
        print(missing_software_gpu())
        return
    if arguments.inside:
        _show_cards(arguments.cards)
        os.execvp(arguments.command[0], arguments.command)
    if missing := missing_software_gpu():
        sys.exit(f"no GPU in software: {missing}")
    command = on_software_gpu(arguments.command, arguments.cards or [NVIDIA])
    os.execvpe(command[0], command, os.environ | software_gpu_variables())


if __name__ == "__main__":
    _main()
