"""The steps of a try, in order; each adds its rows."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scripts.gpu.report import Outcome, Row
from scripts.gpu.running import Trial, run_bounded

_ROOT = Path(__file__).resolve().parents[2]
_NVIDIA_SMI = ("nvidia-smi", "/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi")
_QUERY = "name,driver_version,memory.total,memory.free,compute_cap,pci.bus_id"
_BIG_NBYTES, _SMALL_NBYTES = 2_264_924_160, 64 << 20
_BATCH_ROWS = 20_000
#: How much longer than plain onnxruntime a run may take, on a machine that others use, too.
_MOST_RATIO = 1.1
_PLACES = (
    "/sys/class/drm/*",
    "/sys/bus/pci/devices/*",
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/gpus/*/information",
    "/dev/nvidia*",
    "/dev/dri/*",
)


class Target(NamedTuple):
    """An EP on the device that it is tried on; ``name`` is short, for rows and variants."""

    name: str
    ep: str
    device: str

    @property
    def variant(self) -> str:
        """The variant of packages that is made for it."""
        return f"for-{self.ep.lower()[:8]}"


_GPU_TARGETS = (
    Target("CUDA", "CUDAExecutionProvider", "gpu"),
    Target("TensorRT RTX", "NvTensorRTRTXExecutionProvider", "gpu"),
    Target("WebGPU", "WebGpuExecutionProvider", "gpu"),
    Target("TensorRT", "TensorrtExecutionProvider", "gpu"),
)
#: They compile no contexts, which ``ortpkg compile`` has to say.
_WITHOUT_CONTEXTS = frozenset({"CUDA", "WebGPU"})
_CPU_TARGET = Target("CPU", "CPUExecutionProvider", "cpu")


def has_nvidia_gpu() -> bool:
    """Return True where NVIDIA's tool lists a GPU."""
    return any(
        run_bounded([tool, "-L"], 20, os.environ).out.startswith("GPU ") for tool in _NVIDIA_SMI
    )


def machine(trial: Trial) -> None:
    """Note the card, the driver, and what the system shows of them."""
    rows = ""
    for tool in _NVIDIA_SMI:
        command = [tool, f"--query-gpu={_QUERY}", "--format=csv,noheader"]
        ended = trial.run("nvidia-smi", command, 20)
        if ended.is_done and ended.out.strip():
            rows = ended.out.strip()
            break
    trial.facts["gpu_rows"] = rows
    cells = [cell.strip() for cell in rows.splitlines()[0].split(",")] if rows else []
    if cells:
        trial.report.facts |= {"card": f"{cells[0]} (sm_{cells[4].replace('.', '')})"}
        trial.report.facts |= {"driver": cells[1]}
    trial.report.log("what the system shows", {"files": "\n".join(_files())})
    trial.run("libraries", ["sh", "-c", "ldconfig -p | grep -E 'cuda|nvidia|vulkan|cudnn'"], 20)
    outcome = Outcome.YES if rows else Outcome.NOT_TRIED if not trial.is_on_gpu else Outcome.NO
    trial.report.add(Row(step="card", outcome=outcome, details=rows or "no NVIDIA GPU"))


def _files() -> list[str]:
    lines = []
    for pattern in _PLACES:
        for path in sorted(Path("/").glob(pattern.lstrip("/"))):
            text = ""
            if path.name in {"version", "information"}:
                text = f": {' '.join(path.read_text(errors='replace').split())}"
            elif (path / "class").is_file() and (path / "vendor").is_file():
                text = ": " + " ".join(
                    (path / name).read_text().strip() for name in ("class", "vendor", "device")
                )
            if "pci/devices" not in pattern or "0x03" in text or "0x12" in text:
                lines.append(f"{path}{text}")
    return lines


def plain_onnxruntime(trial: Trial) -> None:
    """Say what onnxruntime lists without ortpkg, and that CUDA is left out unprepared."""
    model = _ROOT / "sample_packages/digits.ortpackage/models/classifier/cpu-fp32/model.onnx"

    def judge(answer: Any) -> tuple[bool, str]:
        trial.report.facts["onnxruntime"] = answer["version"]
        if answer["cuda"]:
            trial.report.facts["built for CUDA"] = answer["cuda"]
        trial.facts["plain"] = answer
        devices = [f"{device['ep']}/{device['type']}" for device in answer["devices"]]
        started = answer.get("starts_unprepared", "not listed")
        return True, (
            f"lists {', '.join(answer['providers'])}; EP devices {', '.join(devices)};"
            f" CUDA in a session without preparation: {started}"
        )

    trial.row("plain onnxruntime", "", trial.program("plain", model, limit_s=90), judge)


def libraries(trial: Trial) -> None:
    """Prepare NVIDIA's libraries as a session does."""

    def judge(answer: Any) -> tuple[bool, str]:
        if answer["driver_failure"]:
            return not trial.is_on_gpu, answer["driver_failure"]
        trial.report.facts["driver's CUDA"] = answer["driver_cuda"]
        for name, version in answer["versions"].items():
            trial.report.facts[name.removeprefix("nvidia-")] = version
        loaded = [Path(path).name for path in answer["loaded"]]
        own = [name for name in loaded if "onnxruntime" not in name]
        return not answer["missing"], (
            f"{answer['missing'] or 'nothing is missing'}; loaded {', '.join(own)} in"
            f" {answer['prepare_s']:.1f} s from {', '.join(answer['folders'])}"
        )

    trial.row("NVIDIA's libraries", "", trial.program("libraries", limit_s=90), judge)


def devices(trial: Trial) -> None:
    """List devices, and settle which EPs the later steps try."""
    trial.ortpkg("devices", "--facts", limit_s=150)

    def judge(answer: Any) -> tuple[bool, str]:
        offered = {
            (entry["ep"], (entry["device"] or {}).get("type", "gpu"))
            for entry in answer["ep_devices"]
            if entry["backend"] == "onnxruntime"
        }
        wished = [*_GPU_TARGETS, _CPU_TARGET]
        trial.facts["targets"] = [
            target for target in wished if (target.ep, target.device) in offered
        ]
        for entry in answer["ep_devices"]:
            if entry["ep"] in {target.ep for target in _GPU_TARGETS}:
                trial.report.facts[entry["ep"].removesuffix("ExecutionProvider")] = entry[
                    "ep_version"
                ]
        names = [target.name for target in trial.facts["targets"]]
        is_right = "CUDA" in names if trial.is_on_gpu else "CPU" in names
        gpus = [device["name"] for device in answer["hardware"] if device["type"] == "gpu"]
        notes = "; ".join(answer["notes"])
        return is_right, f"GPUs: {gpus or 'none'}; offered: {', '.join(names)}; notes: {notes}"

    trial.row("devices", "", trial.ortpkg("devices", "--json"), judge)


def doctor(trial: Trial) -> None:
    """Tell complaints; an error among them means that something here cannot be used."""

    def judge(answer: Any) -> tuple[bool, str]:
        texts = [
            f"{complaint['gravity']}: {complaint['message']}" for complaint in answer["complaints"]
        ]
        has_errors = any(complaint["gravity"] == "error" for complaint in answer["complaints"])
        return not has_errors, "; ".join(texts) or "no complaint"

    trial.row("doctor", "", trial.ortpkg("doctor", "--json", limit_s=120), judge)


def profile(trial: Trial) -> None:
    """Export this machine as a profile; selection for it is selection here."""
    path = trial.report.folder / "gpu_profile.json"
    package = _ROOT / "sample_packages/digits.ortpackage"
    exported = trial.ortpkg("devices", "--export", path, "--overwrite")
    choices = [
        trial.ortpkg("select", package, "--json", *words)
        for words in ((), ("--profile", str(path)))
    ]

    def judge(answer: Any) -> tuple[bool, str]:
        here, there = _selected(choices[0].json), _selected(answer)
        return here == there and exported.is_done, f"here {here}, by profile {there}"

    trial.row("select --profile", "", choices[1], judge)


def packages(trial: Trial) -> None:
    """Make packages with a variant for each EP that is tried, and with samples."""
    targets = _targets(trial)
    words = [f"{target.ep}={target.device}" for target in targets]
    program_run = trial.program("models", trial.work, *words, limit_s=120)

    def judge(answer: Any) -> tuple[bool, str]:
        trial.facts["packages"] = answer["packages"]
        failures = [failure for failure in map(_add_samples, ("conv", "encoder")) if failure]
        for target in targets:
            if target.name not in {"CPU", "CUDA"}:
                _add_digits(trial, target)
        return not failures, "; ".join(failures) or ", ".join(answer["packages"])

    def _add_samples(name: str) -> str:
        words = ("--name", "drawn", "--input", trial.work / f"{name}_in.npz", "--tolerance")
        expected = ("5%", "--expected", trial.work / f"{name}_out.npz")
        ended = trial.ortpkg("samples", "add", trial.facts["packages"][name], *words, *expected)
        return "" if ended.is_done else ended.reason

    trial.row("packages", "", program_run, judge)


def _add_digits(trial: Trial, target: Target) -> None:
    model = "models/classifier/cpu-fp32/model.onnx"
    digits = Path(trial.facts["packages"]["digits"])
    words = ("--variant", target.variant, "--ep", target.ep, "--device", target.device)
    trial.ortpkg("add-variant", digits, digits / model, *words)


def selection(trial: Trial) -> None:
    """Select among the variants, freely and by wishes."""
    digits = trial.facts["packages"]["digits"]
    queries: dict[str, tuple[str, ...]] = {"freely": (), "cpu": ("--device", "cpu")}
    if trial.is_on_gpu:
        queries["gpu"] = ("--device", "gpu")
    queries |= {target.name: ("--ep", target.ep) for target in _targets(trial)}
    trial.ortpkg("select", digits, "--explain")
    for query, words in queries.items():

        def judge(
            answer: Any, query: str = query, words: tuple[str, ...] = words
        ) -> tuple[bool, str]:
            chosen = _selected(answer)
            is_right = bool(chosen) and (words[:1] != ("--ep",) or words[1] in chosen)
            is_right = is_right and (words[:1] != ("--device",) or f" {words[1]}" in chosen)
            if query in {"freely", "gpu"} and trial.is_on_gpu:
                is_right = is_right and chosen.endswith(" gpu")
            return is_right, chosen or "nothing fits"

        ended = trial.ortpkg("select", digits, "--json", *words)
        trial.row("select", query, ended, judge)


def run(trial: Trial) -> None:
    """Run each package on each EP: outputs as expected, every node where it was asked for."""
    for name, package in trial.facts["packages"].items():
        for target in _targets(trial):
            words = ("--ep", target.ep, "--backend", "onnxruntime", "--strict", "--json")
            ended = trial.ortpkg("run", package, *words, limit_s=90)
            trial.row(f"run {name}", target.name, ended, _judge_run(target))


def _judge_run(target: Target) -> Callable[[Any], tuple[bool, str]]:
    def judge(answer: Any) -> tuple[bool, str]:
        (ran,), (sample, *_) = answer["ran"], answer["samples"]
        entries = ran["placement"]["entries"]
        where = ", ".join(f"{entry['nodes']} on {_short(entry['ep'])}" for entry in entries)
        error = max(sample["largest_absolute_error"].values())
        right = f", {sample['right']} of {sample['labelled']} right" if sample["labelled"] else ""
        is_right = sample["matches"] and answer["as_asked"] and ran["ep"] == target.ep
        return is_right, (
            f"{ran['variant']}: nodes {where}; error {error:.2g}{right}; loaded in"
            f" {answer['load_s']:.2f} s, {sample['median_latency_s'] * 1e3:.3f} ms a run"
        )

    return judge


def isolate(trial: Trial) -> None:
    """Run in a child process with limits, as packages of strangers are."""
    target = _targets(trial)[0]
    words = ("--ep", target.ep, "--backend", "onnxruntime", "--isolate", "--timeout", "60s")
    package = trial.facts["packages"]["conv"]
    ended = trial.ortpkg("run", package, *words, "--strict", "--json", limit_s=90)
    trial.row("run --isolate conv", target.name, ended, _judge_run(target))


def latency(trial: Trial) -> None:
    """Compare ortpkg's session with plain onnxruntime's, run and bound."""
    for target in _targets(trial)[:1]:
        for name in ("conv", "encoder"):
            for is_bound in (False, True):
                model, inputs = trial.work / f"{name}.onnx", trial.work / f"{name}_in.npz"
                words = (model, inputs, target.ep, int(is_bound))
                ended = trial.program("latency", *words, limit_s=60)
                step = f"IO binding, {name}" if is_bound else f"latency, {name}"
                trial.row(step, target.name, ended, _judge_latency(is_bound))


def _judge_latency(is_bound: bool) -> Callable[[Any], tuple[bool, str]]:
    def judge(answer: Any) -> tuple[bool, str]:
        fallback = any(entry["fallback"] for entry in answer["placement"])
        is_device = not is_bound or answer["how"].startswith("both bound")
        is_right = (
            answer["started"] and not fallback and answer["ratio"] <= _MOST_RATIO and is_device
        )
        return is_right, (
            f"{answer['own_s'] * 1e3:.3f} ms, plain onnxruntime {answer['onnxruntime_s'] * 1e3:.3f}"
            f" ms: {answer['ratio']:.2f} times; outputs differ by {answer['difference']:.2g};"
            f" {answer['how']}"
        )

    return judge


def bench(trial: Trial) -> None:
    """Measure all variants of the network, then select by what was measured."""
    package = trial.facts["packages"]["conv"]
    words = ("--duration", "500ms", "--rounds", "1", "--backend", "onnxruntime", "--json")
    ended = trial.ortpkg("bench", package, *words, limit_s=120)

    def judge(answer: Any) -> tuple[bool, str]:
        notes, is_right = [], True
        for result in answer["results"]:
            where = f"{result['variant']} on {_short(result['ep_device']['ep'])}"
            if result["outcome"] != "measured":
                notes.append(f"{where}: {result['outcome']}, {result['reason']}")
                is_right = False
                continue
            memory = result["gpu_memory_nbytes"]
            on_gpu = f", GPU memory {memory >> 20} MiB" if memory else ""
            notes.append(f"{where}: {result['times']['p50_s'] * 1e3:.3f} ms{on_gpu}")
        return is_right and bool(notes), "; ".join(notes)

    trial.row("bench conv", "", ended, judge)
    chosen = trial.ortpkg("select", package, "--policy", "measured", "--json")
    trial.row("select --policy measured", "", chosen, lambda a: (bool(_selected(a)), _selected(a)))


def contexts(trial: Trial) -> None:
    """Compile contexts, select and load them again; an EP that makes none has to say so."""
    for target in _targets(trial):
        package = trial.facts["packages"]["conv"]
        words = ("--ep", target.ep, "--backend", "onnxruntime", "--variant", target.variant)
        ended = trial.ortpkg(
            "compile", package, *words, "--name", f"{target.variant}-ctx", "--json"
        )
        if target.name in _WITHOUT_CONTEXTS and ended.err.startswith("error: "):
            details = ended.err.strip().splitlines()[-1]
            trial.report.add(
                Row(
                    step="compile",
                    on=target.name,
                    outcome=Outcome.YES,
                    details=f"refused: {details}",
                    duration_s=ended.duration_s,
                )
            )
            continue
        if trial.row("compile", target.name, ended, _judge_compiled):
            name = ("--variant", f"{target.variant}-ctx", "--ep", target.ep)
            loaded = trial.ortpkg("run", package, *name, "--trust", "--strict", "--json")
            trial.row("load the context", target.name, loaded, _judge_run(target))


def _judge_compiled(answer: Any) -> tuple[bool, str]:
    (variant,) = answer["variants"]
    info = variant["constraints"]["ep_compatibility_info"]
    return True, f"in {answer['duration_s']:.1f} s; {variant['partitions']} partitions; {info}"


def big(trial: Trial) -> None:
    """Run a model with more than 2 GiB of float16 weights, beside plain onnxruntime."""
    target = _targets(trial)[0]
    nbytes = trial.facts["big_nbytes"] or (_BIG_NBYTES if trial.is_on_gpu else _SMALL_NBYTES)
    maker = trial.program("big", "make", trial.work, nbytes, limit_s=90)
    if not maker.is_done:
        trial.row("big model", target.name, maker)
        return
    peaks: dict[str, float] = {}
    for how in ("onnxruntime", "ortpkg"):

        def judge(answer: Any, how: str = how) -> tuple[bool, str]:
            peaks[how] = answer["peak_nbytes"]
            nodes = ", ".join(
                f"{entry.get('nodes', '')} {_short(entry['ep'])}".strip()
                for entry in answer["placement"]
            )
            is_right = answer["is_finite"] and answer["placement"][0]["ep"] == target.ep
            is_right = is_right and not any(e.get("fallback") for e in answer["placement"])
            compared = ""
            if how == "ortpkg" and answer["difference"] is not None:
                is_right = is_right and answer["difference"] < 0.02
                ratio = answer["peak_nbytes"] / peaks["onnxruntime"] if len(peaks) > 1 else 0.0
                compared = (
                    f"; differs by {answer['difference']:.2g}; memory {ratio:.2f} times plain's"
                )
                is_right = is_right and ratio <= 1.1
            return is_right, (
                f"{maker.json['nbytes']:,} bytes of weights: {nodes}; loaded in"
                f" {answer['load_s']:.1f} s, run in {answer['run_s'] * 1e3:.1f} ms, peak"
                f" {answer['peak_nbytes'] / (1 << 30):.2f} GiB{compared}"
            )

        ended = trial.program("big", how, trial.work, target.ep, limit_s=100)
        trial.row(f"big model, {how}", target.name, ended, judge)
    for path in trial.work.glob("big*"):
        path.unlink()


def serving(trial: Trial) -> None:
    """Serve the digits and ask for them from eight threads."""
    target = _targets(trial)[0]
    variant = "cuda" if target.name == "CUDA" else "cpu-fp32"
    words = (trial.facts["packages"]["digits"], variant, target.ep)
    ended = trial.program("serving", *words, limit_s=100)

    def judge(answer: Any) -> tuple[bool, str]:
        rate = answer["asked"] / answer["seconds"]
        is_right = answer["right"] >= 0.98 * answer["asked"] and answer["exit_code"] == 0
        return is_right, (
            f"{answer['right']} of {answer['asked']} answers as expected, {rate:.0f} a second;"
            f" ready after {answer['start_s']:.1f} s, exit code {answer['exit_code']}"
        )

    trial.row("serve", target.name, ended, judge)


def batch(trial: Trial) -> None:
    """Run rows of a file through the digits."""
    target, package = _targets(trial)[0], trial.facts["packages"]["digits"]
    rows, output = trial.work / "rows.npy", trial.work / "answers"
    trial.program("batch_rows", "make", package, rows, _BATCH_ROWS)
    words = ("--in-process", "-i", rows, "-o", output, "--ep", target.ep, "--json")
    ended = trial.ortpkg("batch", package, *words, "--backend", "onnxruntime", limit_s=90)
    if not ended.is_done:
        trial.row("batch", target.name, ended)
        return
    last = [json.loads(line) for line in ended.out.splitlines() if line.startswith("{")][-1]
    checked = trial.program("batch_rows", "check", package, output, _BATCH_ROWS)

    def judge(answer: Any) -> tuple[bool, str]:
        is_right = answer["rows"] == _BATCH_ROWS and answer["right"] >= 0.98 * _BATCH_ROWS
        where = last["nodes"][0]["variants"][0]
        return is_right and where["ep"] == target.ep, (
            f"{answer['right']} of {answer['rows']} rows as expected by {where['variant']},"
            f" {last['rows'] / last['elapsed_s']:.0f} rows a second"
        )

    trial.row("batch", target.name, checked, judge)


def left_behind(trial: Trial) -> None:
    """Compare the card's free memory with that of the beginning."""
    if not trial.facts.get("gpu_rows"):
        return
    for tool in _NVIDIA_SMI:
        ended = trial.run(
            "nvidia-smi", [tool, f"--query-gpu={_QUERY}", "--format=csv,noheader"], 20
        )
        if ended.is_done:
            break
    before, after = (
        [int(number) for number in re.findall(r"(\d+) MiB", text)][1::2]
        for text in (trial.facts["gpu_rows"], ended.out)
    )
    is_right = bool(after) and all(a >= b - 64 for a, b in zip(after, before, strict=True))
    trial.report.add(
        Row(
            step="free memory of the card",
            outcome=Outcome.YES if is_right else Outcome.NO,
            details=f"before {before} MiB, after {after} MiB",
        )
    )


def _targets(trial: Trial) -> list[Target]:
    """Return the EPs to try, the one that it is about first."""
    offered: list[Target] = trial.facts.get("targets") or [_CPU_TARGET]
    return offered


def _selected(answer: Any) -> str:
    """Return "variant on EP (backend) device" of an answer of select; "" for none."""
    selections = (answer or {}).get("selections") or [{}]
    chosen: Mapping[str, Any] | None = selections[0].get("selected")
    if not chosen:
        return ""
    return f"{chosen['variant']} on {chosen['ep']} ({chosen['backend']}) {chosen['device']}"


def _short(ep: str) -> str:
    return ep.removesuffix("ExecutionProvider")


STEPS: dict[str, Callable[[Trial], None]] = {
    "machine": machine,
    "plain": plain_onnxruntime,
    "libraries": libraries,
    "devices": devices,
    "doctor": doctor,
    "packages": packages,
    "select": selection,
    "run": run,
    "profile": profile,
    "big": big,
    "latency": latency,
    "batch": batch,
    "serve": serving,
    "contexts": contexts,
    "bench": bench,
    "isolate": isolate,
    "left": left_behind,
}
