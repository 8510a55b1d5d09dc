"""Opening a package and selecting: ours and onnxruntime's C functions, in turns.

    python -m benchmarks.open_select [VARIANTS ...] [--format component|universal|all] [--seconds S]

Theirs: ``CreateModelPackageContext``, ``SelectComponent`` and the name of what was selected,
through ctypes, with the CPU EP in session options that were made before. Ours: ``open_package`` and
``select_ep_devices`` with the machine's devices known, as theirs are once an environment exists.
Both validate the package; digests are not part of opening.
The goal, for the component generation: at most 8 times theirs for 3 variants, which is under a
millisecond, as long as theirs for 1,000, and linear to 10,000.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.onnxruntime_peer import OnnxRuntimePeer
from benchmarks.packages import FORMATS, write_package
from benchmarks.paired import Timing, time_in_turns
from ortpkg.package.reader import open_package
from ortpkg.runtime.providers.machine_offer import MachineOffer, this_machine
from ortpkg.selection.matching.request import make_request
from ortpkg.selection.matching.selector import select_ep_devices
from ortpkg.selection.matching.wishes import SelectionWishes
from tests.interop.wheels import installed_release, library_of

_GOALS = {3: 8.0, 1_000: 1.0, 10_000: 1.0}


def open_and_select(root: Path, machine: MachineOffer) -> str:
    """The name of the variant that ortpkg selects on ``machine``."""
    component = open_package(root).components[0]
    request = make_request(
        component,
        machine.ep_devices,
        SelectionWishes(),
        hardware=machine.hardware,
        compatibility=machine.compatibility,
    )
    selection = select_ep_devices(component, request)
    assert selection.best is not None
    return selection.best.variant.name


def compare(
    root: Path, peer: OnnxRuntimePeer, machine: MachineOffer, *, budget_s: float
) -> dict[str, Timing]:
    """Timings of both on one package."""
    contenders: dict[str, Callable[[], object]] = {
        "onnxruntime": lambda: peer.open_and_select(root),
        "ortpkg": lambda: open_and_select(root, machine),
    }
    return time_in_turns(contenders, baseline="onnxruntime", budget_s=budget_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Open and select: ortpkg and onnxruntime's C functions in turns."
    )
    parser.add_argument("variants", nargs="*", type=int, default=list(_GOALS))
    parser.add_argument("--format", choices=[*FORMATS, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each package")
    arguments = parser.parse_args()
    peer, machine = OnnxRuntimePeer(library_of(installed_release())), this_machine()
    print(
        f"onnxruntime {peer.runtime.version}; EPs here:"
        f" {', '.join(each.ep_name for each in machine.ep_devices)}"
    )
    print("format      variants  onnxruntime       ortpkg   ratio (middle half)     goal")
    for package_format in FORMATS if arguments.format == "all" else (arguments.format,):
        for count in arguments.variants:
            with tempfile.TemporaryDirectory() as folder:
                root = write_package(Path(folder, "package"), count, package_format)
                timings = compare(root, peer, machine, budget_s=arguments.seconds)
            theirs, ours = timings["onnxruntime"], timings["ortpkg"]
            goal = (
                f"<= {_GOALS[count]}" if count in _GOALS and package_format == "component" else ""
            )
            spread = f"{ours.ratio:5.2f} ({ours.ratio_low:.2f} to {ours.ratio_high:.2f})"
            times = f"{1e3 * theirs.median_s:8.2f} ms  {1e3 * ours.median_s:8.2f} ms"
            print(f"{package_format:10}  {count:8}  {times}   {spread:22}  {goal}", flush=True)


if __name__ == "__main__":
    main()
