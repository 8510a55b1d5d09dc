"""What a batch takes on many nodes, by a model of its cost: nothing is run.

    python -m benchmarks.scale_model [--nodes 1 2 4 16 64] [--rows 1e9] [--rate 58000] ...

docs/scaling_reference.md has the formula, where its constants come from and where it breaks.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields

_MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCost:
    """A batch, and constants as measured or bought.

    Attributes:
        rows: of the batch.
        rate: rows a second of one worker.
        workers: of a node.
        part_rows: of a part.
        part_s: what a part takes at the driver, whatever is in it.
        in_nbytes, out_nbytes: of a row, in the files.
        package_nbytes: what a node installs.
        install_s: of an install beside the transfer.
        start_s: from the command to the first part: connecting, the trial, the workers' start.
        disk: bytes a second of the disk that all nodes share.
        registry: bytes a second of the registry, for all nodes together.
        link: bytes a second of a node.
    """

    rows: float = 1e9
    rate: float = 58_000
    workers: float = 8
    part_rows: float = 8192
    part_s: float = 0.01
    in_nbytes: float = 264
    out_nbytes: float = 48
    package_nbytes: float = 0.1 * _MB
    install_s: float = 1.2
    start_s: float = 10.0
    disk: float = 1000 * _MB
    registry: float = 100 * _MB
    link: float = 1000 * _MB

    def preparation_s(self, nodes: int) -> float:
        """Before the first row: the start, and the package on every node."""
        transfer_s = self.package_nbytes / min(self.link, self.registry / nodes)
        return self.start_s + self.install_s + transfer_s

    def rates(self, nodes: int) -> dict[str, float]:
        """Rows a second that each part of the machinery can do; the least of them holds."""
        return {
            "workers": nodes * self.workers * self.rate,
            "driver": self.part_rows / self.part_s,
            "disk": self.disk / (self.in_nbytes + self.out_nbytes),
        }

    def total_s(self, nodes: int) -> float:
        """Of the whole batch."""
        return self.preparation_s(nodes) + self.rows / min(self.rates(nodes).values())


def table(cost: BatchCost, nodes: Sequence[int]) -> list[str]:
    """Lines of a table in Markdown."""
    lines = [
        "| nodes | before the first row | whole batch | times one node | bound by | bytes moved |",
        "|---|---|---|---|---|---|",
    ]
    moved = cost.rows * (cost.in_nbytes + cost.out_nbytes)
    for count in nodes:
        rates = cost.rates(count)
        bound = min(rates, key=rates.__getitem__)
        total_s = cost.total_s(count)
        lines.append(
            f"| {count} | {cost.preparation_s(count):.1f} s | {total_s:.0f} s"
            f" | {cost.total_s(1) / total_s:.1f} | {bound}"
            f" | {(moved + count * cost.package_nbytes) / 1e9:.1f} GB |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", nargs="+", type=int, default=[1, 2, 4, 16, 64])
    for each in fields(BatchCost):
        parser.add_argument(
            f"--{each.name.replace('_', '-')}", type=float, default=each.default, metavar="NUMBER"
        )
    arguments = vars(parser.parse_args())
    nodes = arguments.pop("nodes")
    print("\n".join(table(BatchCost(**arguments), nodes)))


if __name__ == "__main__":
    main()
