"""Groups of the options of commands with many, as ``--help`` and ``--help-all`` show them.

Other commands have one group. A test compares the table with the options of each command, so that a
new option must be put into a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

#: Options of every command, which the help shows last.
GENERAL = ("--json", "--quiet", "--no-color", "--help", "--help-all")


class OptionGroups(NamedTuple):
    """Options of one command: long names by heading, in the order of the help.

    Attributes:
        common: Groups that ``--help`` shows.
        rare: Groups that only ``--help-all`` shows.
    """

    common: Mapping[str, tuple[str, ...]]
    rare: Mapping[str, tuple[str, ...]] = MappingProxyType({})


_CHOICE = ("--component", "--variant", "--device", "--ep", "--backend", "--policy")

#: Option groups of each command.
OPTION_GROUPS: Mapping[str, OptionGroups] = {
    "samples": OptionGroups(
        common={
            "Samples": ("--name", "--component", "--input", "--expected", "--description"),
            "Comparison": ("--variant", "--tolerance", "--task"),
            "Changes": ("--overwrite", "--dry-run"),
        },
        rare={
            "Inputs": ("--random", "--seed", "--dim", "--resize", "--batched"),
            "For record: what runs": ("--device", "--ep", "--policy", "--backend", "--trust"),
        },
    ),
    "select": OptionGroups(
        common={
            "Choice": (*_CHOICE, "--profile"),
            "Answers": ("--explain", "--compare"),
            "Limits": ("--max-memory", "--max-size", "--min-precision"),
        },
        rare={
            "More limits": (
                *("--max-latency", "--max-error", "--where", "--strict-facts"),
                "--check-architecture",
            ),
            "Records": ("--log-json",),
            "Packages": (
                *("--provider-option", "--include-absent", "--trust", "--compat"),
                "--allow-external-paths",
            ),
        },
    ),
    "run": OptionGroups(
        common={
            "Inputs and outputs": ("--input", "--random", "--dim", "--output", "--overwrite"),
            "Choice of a variant": ("--component", "--variant", "--device", "--ep", "--backend"),
            "Limits and trust": ("--timeout", "--memory-limit", "--trust"),
        },
        rare={
            "More about inputs": ("--seed", "--resize"),
            "How it runs": (
                *("--policy", "--provider-option", "--threads", "--isolate", "--canary"),
                *("--allow-fallback", "--cache"),
            ),
            "Conditions": ("--verify", "--strict", "--min-offload"),
            "Packages": ("--trust-policy", "--compat", "--allow-external-paths"),
        },
    ),
    "plan": OptionGroups(
        common={
            "What is planned": ("--component", "--variant", "--ep", "--backend", "--dim"),
            "What is shown": ("--nodes", "--memory", "--costs", "--svg", "--overwrite"),
            "Limits": ("--timeout", "--memory-limit"),
        },
        rare={
            "Machine code": ("--ir", "--stage", "--kernel", "--lines"),
            "How it is planned": ("--optimization-level", "--partition", "--size"),
        },
    ),
    "bench": OptionGroups(
        common={
            "What is measured": ("--component", "--variant", "--ep", "--device", "--backend"),
            "How long": ("--repeat", "--duration", "--timeout"),
            "Results": ("--svg", "--overwrite", "--record"),
        },
        rare={
            "How it is measured": ("--rounds", "--batch-rows", "--dim", "--threads"),
            "Limits and trust": ("--memory-limit", "--trust"),
        },
    ),
    "report": OptionGroups(
        common={
            "The page": ("--output", "--overwrite", "--open"),
            "What it shows": ("--profile", "--graphs", "--ep", "--bench", "--verify"),
        },
        rare={
            "How it is planned": ("--backend", "--size"),
            "Limits and trust": ("--timeout", "--memory-limit", "--trust"),
        },
    ),
    "batch": OptionGroups(
        common={
            "Rows": ("--input", "--output", "--format", "--map", "--keep"),
            "Faults": ("--errors", "--resume"),
            "Where it runs": ("--in-process", "--ray"),
            "Choice of a variant": ("--device", "--ep"),
        },
        rare={
            "More about rows": ("--batch-axis", "--batch-size", "--part-rows", "--resize"),
            "How it runs": (
                *("--component", "--variant", "--backend", "--policy", "--provider-option"),
                *("--workers", "--threads", "--same-results", "--canary"),
                "--allow-fallback",
            ),
            "Limits and trust": ("--timeout", "--memory-limit", "--trust"),
        },
    ),
    "serve": OptionGroups(
        common={
            "Where it listens": ("--host", "--port", "--grpc-port"),
            "Who may ask": ("--token-file", "--ssl-certfile", "--ssl-keyfile"),
            "Packages": ("--name", "--default-version", "--trust"),
            "Load": ("--concurrency", "--max-queue", "--timeout"),
            "Choice of variants": ("--device", "--ep"),
        },
        rare={
            "More about load": (
                *("--batch-latency", "--max-connections", "--max-request", "--memory-limit"),
            ),
            "How it runs": (
                *("--component", "--variant", "--backend", "--policy", "--threads", "--isolate"),
                *("--canary", "--allow-fallback"),
            ),
            "Safety": ("--verify", "--trust-policy", "--log-requests"),
        },
    ),
    "compile": OptionGroups(
        common={
            "What is compiled": (
                "--component",
                "--variant",
                "--ep",
                "--device",
                "--for-device",
                "--target",
            ),
            "What comes out": ("--name", "--renew", "--overwrite", "--dry-run"),
            "Limits": ("--timeout", "--memory-limit"),
        },
        rare={
            "How it is compiled": (
                *("--for", "--backend", "--provider-option", "--embed", "--share-weights"),
            ),
        },
    ),
}
