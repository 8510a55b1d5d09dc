"""What selecting costs as variants and EP devices grow, and what probing costs.

    python -m benchmarks.selection_scaling [--svg FILE]

Two kinds of packages: variants that share requirements, as packages have them, and variants that
each state a compatibility string of their own, so that none is judged together with another. The
goals: 3 variants on 4 EP devices in 0.1 ms and 1,000 variants in 5 ms; cost linear in variants x EP
devices; a probe of the operating system in 30 ms.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine_probe import probe
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.request import make_request
from ortpkg.selection.matching.selector import select_ep_devices
from ortpkg.selection.matching.wishes import SelectionWishes

VARIANTS = (3, 10, 100, 1_000, 3_000, 10_000)
EP_DEVICES = (4, 8)
_EPS = (
    "CUDAExecutionProvider",
    "OpenVINOExecutionProvider",
    "QNNExecutionProvider",
    "CPUExecutionProvider",
)
_TYPES = (DeviceType.GPU, DeviceType.GPU, DeviceType.NPU, DeviceType.CPU)


def ep_devices(count: int) -> list[EpDevice]:
    """``count`` devices of four execution providers."""
    return [
        EpDevice(
            ep_name=_EPS[index % 4],
            ep_vendor="benchmark",
            backend="onnxruntime",
            device=HardwareDevice(type=_TYPES[index % 4], name=f"device {index}"),
        )
        for index in range(count)
    ]


def component(variants: int, *, are_alike: bool) -> ComponentInfo:
    """A component in memory."""
    root = Path("/package")
    made = tuple(
        VariantInfo(
            name=f"v{index}",
            component_name="model",
            directory=root,
            model_path=root / "model.onnx",
            constraints=Constraints(
                ep=_EPS[index % 4],
                device=_TYPES[index % 4].value,
                ep_compatibility_info=None if are_alike else f"string {index}",
            ),
        )
        for index in range(variants)
    )
    return ComponentInfo(name="model", directory=root, variants=made)


def select(info: ComponentInfo, devices: list[EpDevice]) -> None:
    """One selection, without looking at the verdicts."""
    hardware = [each.device for each in devices if each.device is not None]
    request = make_request(
        info, devices, SelectionWishes(), hardware=hardware, compatibility=_optimal
    )
    selection = select_ep_devices(info, request)
    assert selection.best is not None


def _optimal(_device: EpDevice, _info: str) -> CompiledModelCompatibility:
    return CompiledModelCompatibility.OPTIMAL


def time_ms(call: Callable[[], object], *, budget_s: float = 0.5) -> float:
    """Median processor time of as many calls as the budget allows, after two to warm up."""
    call()
    call()
    gc.collect()
    times: list[float] = []
    end = time.perf_counter() + budget_s
    while len(times) < 5 or time.perf_counter() < end:
        start = time.process_time()
        call()
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Selection alone, and the probe of the operating system."
    )
    parser.add_argument("--svg", type=Path, help="draw the curves to this file")
    arguments = parser.parse_args()
    curves: dict[str, list[float]] = {}
    for devices in EP_DEVICES:
        for are_alike in (True, False):
            name = f"{devices} EP devices, {'few kinds' if are_alike else 'all different'}"
            offered = ep_devices(devices)
            infos = [component(count, are_alike=are_alike) for count in VARIANTS]
            curves[name] = [time_ms(partial(select, info, offered)) for info in infos]
    print(f"{'variants':32}" + "".join(f"{count:>12,}" for count in VARIANTS))
    for name, times in curves.items():
        print(f"{name:32}" + "".join(f"{each:>9.3f} ms" for each in times))
    print(f"\nprobe of the operating system: {time_ms(probe):.1f} ms")
    if arguments.svg is not None:
        arguments.svg.write_text(draw(curves), encoding="utf-8")


def draw(curves: dict[str, list[float]]) -> str:
    """The curves on linear axes, so that linear cost is a straight line."""
    width, height, left, top = 640, 320, 60, 20
    most = max(max(times) for times in curves.values())
    colors = ("#1f77b4", "#17becf", "#d62728", "#ff7f0e")
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 280} {height + 70}"'
            ' font-family="sans-serif">'
        )
    ]
    lines.append(
        f'<path d="M{left} {top}V{top + height}H{left + width - 60}" fill="none" stroke="#333"/>'
    )
    lines.append(
        f'<text x="{left}" y="{top + height + 40}" font-size="12">variants, 0 to'
        f" {VARIANTS[-1]:,}</text>"
    )
    lines.append(f'<text x="4" y="{top + 8}" font-size="12">{most:.0f} ms</text>')
    for row, (name, times) in enumerate(curves.items()):
        points = " ".join(
            f"{left + (width - 60) * count / VARIANTS[-1]:.1f},"
            f"{top + height * (1 - each / most):.1f}"
            for count, each in zip(VARIANTS, times, strict=True)
        )
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colors[row]}" stroke-width="2"/>'
        )
        lines.append(
            f'<text x="{left + width - 40}" y="{top + 20 + 18 * row}" font-size="12"'
            f' fill="{colors[row]}">{name}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    main()
