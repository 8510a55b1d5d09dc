"""docs/selection.md's rules and order, written once more over plain data.

It shares no code with ortpkg: what both say of a row is what the document says. Machines, variants
and records are the objects of machines.json, variants.json and records.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Facts = dict[str, Any]

#: Codes of rejections in the order of the rules.
REJECTIONS = [
    "EP_NOT_AVAILABLE",
    "EP_MISMATCH",
    "EP_NOT_REQUESTED",
    "DEVICE_MISMATCH",
    "DEVICE_NOT_PRESENT",
    "DEVICE_NOT_REQUESTED",
    "PROVIDER_OPTION_DEVICE_CONFLICT",
    "COMPILED_MODEL_UNSUPPORTED",
    "ARCHITECTURE_MISMATCH",
    "METADATA_MISMATCH",
    "SIZE_TOO_LARGE",
    "PRECISION_TOO_LOW",
    "MEMORY_TOO_LARGE",
    "MEMORY_TOO_SMALL",
    "LATENCY_TOO_HIGH",
    "ERROR_TOO_LARGE",
    "FACT_UNKNOWN",
    "NOT_MEASURED",
    "CANARY_FAILED",
    "QUARANTINED",
]
ORDERS = {
    "default": "dgpu npu igpu cpu",
    "max-performance": "dgpu npu igpu cpu",
    "measured": "dgpu npu igpu cpu",
    "prefer-npu": "npu igpu dgpu cpu",
    "max-efficiency": "npu igpu dgpu cpu",
    "min-overall-power": "npu igpu cpu dgpu",
    "prefer-gpu": "dgpu igpu npu cpu",
    "prefer-cpu": "cpu dgpu npu igpu",
}
RATINGS = {"EP_SUPPORTED_OPTIMAL": 0, "EP_SUPPORTED_PREFER_RECOMPILATION": 2}
BACKENDS = {"openvino": 0, "onnxruntime": 1, "embedded": 3}
IMPLIED = {
    "CUDAExecutionProvider": "gpu",
    "TensorrtExecutionProvider": "gpu",
    "CPUExecutionProvider": "cpu",
}
PRIORITY = ["Tensorrt", "CUDA", "OpenVINO", "QNN", "Azure", "CPU"]
OPTIONS = {
    "AUTO": None,
    "HETERO:GPU,CPU": {"gpu", "cpu"},
    "AUTO:GPU,CPU": {"gpu", "cpu"},
    "GPU": {"gpu"},
    "NPU": {"npu"},
    "htp": {"npu"},
}
#: What archspec says of the few architectures of the tables: how many steps back a CPU's ancestor
#: is.
STEPS_BACK = {("skylake", "skylake"): 0, ("skylake", "broadwell"): 1, ("skylake", "haswell"): 2}
PRECISION = {"int4": 1, "int8": 2, "fp16": 3, "bf16": 3, "fp32": 4}


@dataclass(frozen=True)
class Answer:
    """A row's answer: a code per variant, losers' deciding criterion, the winner's device."""

    codes: dict[str, str]
    place: str


def decide(
    machine: Facts, variants: dict[str, Facts], policy: str, wishes: Facts, records: Facts
) -> Answer:
    """Of variants in declaration order."""
    offers = sorted(machine["ep_devices"], key=lambda offer: _place(offer, machine, policy))
    ranked: list[tuple[tuple[int, ...], str, Facts]] = []
    codes = {}
    for position, (name, variant) in enumerate(variants.items()):
        reasons = []
        for offer_at, offer in enumerate(offers):
            code = _rejection(name, variant, offer, machine, wishes, records)
            if code:
                reasons.append(code)
                continue
            rank = _rank(name, variant, offer, machine, policy, wishes, records)
            ranked.append(((*rank, position, offer_at), name, offer))
        codes[name] = max(reasons, key=REJECTIONS.index, default="EP_NOT_AVAILABLE")
    ranked = [
        (
            (*rank[:3], _speed(name, rank, offer, ranked, variants, machine, records), *rank[3:]),
            name,
            offer,
        )
        for rank, name, offer in ranked
    ]
    ranked.sort(key=lambda entry: entry[0])
    for rank, name, offer in reversed(ranked):  # the best of a variant is written last
        codes[name] = _loser(rank, ranked[0][0], variants[name], offer)
    if not ranked:
        return Answer(codes=codes, place="")
    _, name, offer = ranked[0]
    codes[name] = "SELECTED"
    return Answer(
        codes=codes,
        place=f"{offer['backend']}:{_type(offer, machine) if offer['device'] is not None else '-'}",
    )


CRITERIA = [
    "measured",
    "latency",
    "device",
    "speed",
    "compatibility",
    "architecture",
    "named-EP",
    "backend",
    "declared",
    "offer",
]


def _speed(
    name: str,
    rank: tuple[int, ...],
    offer: Facts,
    ranked: list[tuple[tuple[int, ...], str, Facts]],
    variants: dict[str, Facts],
    machine: Facts,
    records: Facts,
) -> int:
    """1 for a compiled variant that is measured as clearly faster than its plain one, 3 for slower.

    Without measurements of both, 3 for one whose code covers less than nine tenths of the work (calls
    between its pieces counted as work of others), if another backend that is no numpy would run the plain one here. 2 for all others. (Rows have no
    two that are faster, of which the fastest would come first.)
    """
    facts = variants[name]
    if "compat" not in facts:
        return 2
    source = facts.get("metadata", {}).get("derived_from", {}).get("variant")
    plain = sorted(
        (other, whose, place)
        for other, whose, place in ranked
        if "compat" not in variants[whose] and other[2] == rank[2] and source in {None, whose}
    )
    if not plain:
        return 2
    rivals = [place for _, whose, place in plain if whose == plain[0][1]]
    own = _measured(name, offer, machine, records)
    times = [_measured(plain[0][1], place, machine, records) for place in rivals]
    others = [each["p50_ms"] for each in times if each and each.get("accurate") is not False]
    if own and own.get("accurate") is not False and others:
        return 2 + int(own["p50_ms"] > min(others)) - int(own["p50_ms"] < min(others))
    recorded = facts.get("metadata", {}).get("compiled_share", {})
    share = recorded.get("work", 1) / (1 + recorded.get("calls", 0))
    backend = plain[0][2]["backend"]
    return 3 if share < 0.9 and backend not in {offer["backend"], "embedded", "llvm"} else 2


def _loser(rank: tuple[int, ...], best: tuple[int, ...], variant: Facts, offer: Facts) -> str:
    decided = next(
        (name for name, own, won in zip(CRITERIA, rank, best, strict=True) if own != won), ""
    )
    if decided == "compatibility" and variant.get("compat") == "EP_SUPPORTED_PREFER_RECOMPILATION":
        return "PREFERS_RECOMPILATION"
    return f"LOWER_RANK/{decided}"


def _rank(
    name: str,
    variant: Facts,
    offer: Facts,
    machine: Facts,
    policy: str,
    wishes: Facts,
    records: Facts,
) -> tuple[int, ...]:
    measured = _measured(name, offer, machine, records) if policy == "measured" else None
    distance = 0
    if wishes.get("check_architecture"):
        device = {} if offer["device"] is None else machine["hardware"][offer["device"]]
        distance = STEPS_BACK.get(
            (device.get("architecture", ""), variant.get("architecture", "")), 1000
        )
    return (
        int(policy == "measured" and measured is None),
        0 if measured is None else round(measured["p50_ms"] * 1e6),
        _preference(offer, machine, policy),
        RATINGS.get(variant.get("compat", ""), 1),
        distance,
        int("ep" not in variant),
        BACKENDS.get(offer["backend"], 2),
    )


def _rejection(
    name: str, variant: Facts, offer: Facts, machine: Facts, wishes: Facts, records: Facts
) -> str:
    eps = {each["ep"] for each in machine["ep_devices"]}
    named = variant.get("ep")
    if named is not None and named not in eps:
        return "EP_NOT_AVAILABLE"
    if named not in {None, offer["ep"]}:
        return "EP_MISMATCH"
    is_only_for_those_who_name_it = offer["backend"] not in {"openvino", "onnxruntime", "embedded"}
    if wishes.get("ep") not in {None, offer["ep"]}:
        return "EP_NOT_REQUESTED"
    if wishes.get("ep") is None and named is None and is_only_for_those_who_name_it:
        return "EP_NOT_REQUESTED"
    wanted, actual = variant.get("device", "").lower(), _type(offer, machine)
    present = {device["type"] for device in machine["hardware"]}
    is_vouched_for = offer["device"] is None and named is not None
    if wanted and not is_vouched_for and actual != wanted:
        return "DEVICE_MISMATCH" if wanted in present else "DEVICE_NOT_PRESENT"
    if wishes.get("device") not in {None, actual}:
        return "DEVICE_NOT_REQUESTED"
    for option in variant.get("options", {}).values():
        allowed = OPTIONS[option]
        about = wanted or (actual if offer["device"] is not None else "")
        if allowed is not None and about and about not in allowed:
            return "PROVIDER_OPTION_DEVICE_CONFLICT"
    if variant.get("compat") == "EP_UNSUPPORTED":
        return "COMPILED_MODEL_UNSUPPORTED"
    device = {} if offer["device"] is None else machine["hardware"][offer["device"]]
    is_comparable = (
        wishes.get("check_architecture") and "architecture" in variant and "architecture" in device
    )
    if is_comparable and (device["architecture"], variant["architecture"]) not in STEPS_BACK:
        return "ARCHITECTURE_MISMATCH"
    return _misfit(variant, device, wishes, _measured(name, offer, machine, records)) or _trouble(
        name, offer, machine, records
    )


def _misfit(variant: Facts, device: Facts, wishes: Facts, measured: Facts | None) -> str:
    facts = variant.get("metadata", {})
    for key, value in wishes.get("where", {}).items():
        if value not in str(facts.get(key, "")).split("-"):
            return "METADATA_MISMATCH"
    size, peak = facts.get("nbytes"), facts.get("peak_memory_nbytes")
    if wishes.get("max_size") is not None and size is not None and size > wishes["max_size"]:
        return "SIZE_TOO_LARGE"
    precision = _precision(facts)
    if (
        "min_precision" in wishes
        and precision is not None
        and precision < PRECISION[wishes["min_precision"]]
    ):
        return "PRECISION_TOO_LOW"
    need = peak if peak is not None else size
    if measured and "memory_nbytes" in measured and not device.get("is_discrete"):
        need = peak = measured["memory_nbytes"]
    if need is not None and need > wishes.get("max_memory", need):
        return "MEMORY_TOO_LARGE"
    budget = None
    if "free_memory_nbytes" in device:
        budget = device["free_memory_nbytes"] * 9 // 10
    elif device.get("is_discrete") or device.get("type") == "cpu":
        budget = device.get("memory_nbytes")
    if need is not None and budget is not None and need > budget:
        return "MEMORY_TOO_SMALL"
    if measured and measured["p95_ms"] / 1e3 > wishes.get("max_latency", 1e9):
        return "LATENCY_TOO_HIGH"
    if measured and measured.get("error", 0) > wishes.get("max_error", 1e9):
        return "ERROR_TOO_LARGE"
    if wishes.get("strict_facts"):
        is_unknown = ("max_size" in wishes and size is None) or (
            "min_precision" in wishes and precision is None
        )
        if is_unknown or ("max_memory" in wishes and peak is None):
            return "FACT_UNKNOWN"
        if ("max_latency" in wishes and not measured) or (
            "max_error" in wishes and "error" not in (measured or {})
        ):
            return "NOT_MEASURED"
    return ""


def _trouble(name: str, offer: Facts, machine: Facts, records: Facts) -> str:
    measured = _measured(name, offer, machine, records)
    if measured and measured.get("accurate") is False:
        return "CANARY_FAILED"
    entries = (
        each for each in records.get("quarantined", []) if _is_about(each, name, offer, machine)
    )
    is_quarantined = any(
        each.get("ep_version", "") == offer.get("ep_version", "") for each in entries
    )
    return "QUARANTINED" if is_quarantined else ""


def _precision(facts: Facts) -> int | None:
    words = str(facts.get("quantization", "")).split("-")
    found = [PRECISION[word] for word in words if word in PRECISION]
    if found:
        return min(found)
    types = {"float": 4, "float16": 3, "int8": 2, "uint8": 2}
    is_plain = "quantization" in facts
    kinds = [
        types[each]
        for each in facts.get("data_types", [])
        if each in types and not (is_plain and "int" in each)
    ]
    return min(kinds, default=None)


def _measured(name: str, offer: Facts, machine: Facts, records: Facts) -> Facts | None:
    if records.get("stale"):
        return None
    return next(
        (each for each in records.get("measurements", []) if _is_about(each, name, offer, machine)),
        None,
    )


def _is_about(record: Facts, name: str, offer: Facts, machine: Facts) -> bool:
    actual = machine["hardware"][offer["device"]]["type"] if offer["device"] is not None else None
    return (record["variant"], record["ep"], record["backend"], record["device"]) == (
        name, offer["ep"], offer["backend"], actual,
    )  # fmt: skip


def _type(offer: Facts, machine: Facts) -> str | None:
    if offer["device"] is not None:
        return str(machine["hardware"][offer["device"]]["type"])
    return IMPLIED.get(offer["ep"])


def _preference(offer: Facts, machine: Facts, policy: str) -> int:
    kind = _type(offer, machine)
    if kind is None:
        return 4
    if kind == "gpu":
        devices = (
            machine["hardware"]
            if offer["device"] is None
            else [machine["hardware"][offer["device"]]]
        )
        kind = "dgpu" if any(device.get("is_discrete") for device in devices) else "igpu"
    return ORDERS[policy].split().index(kind)


def _place(offer: Facts, machine: Facts, policy: str) -> tuple[Any, ...]:
    device = {} if offer["device"] is None else machine["hardware"][offer["device"]]
    return (
        _preference(offer, machine, policy),
        BACKENDS.get(offer["backend"], 2),
        PRIORITY.index(offer["ep"].removesuffix("ExecutionProvider")),
        offer["device"] is None,
        -device.get("memory_nbytes", 0),
    )
