"""Trains the digits classifier and writes sample_packages/digits.ortpackage.

Run by hand, never by make.

From the root of the repository::

    pip install torch --index-url https://download.pytorch.org/whl/cpu
    pip install --editable '.[train]'
    python -m scripts.train_digits

The first line takes the CPU build of PyTorch; the default one for Linux brings gigabytes of CUDA
libraries that are not used here. The script takes about half a minute. Everything is seeded and
runs in one thread: a second run on the same machine with the same libraries writes the same bytes.
Other CPUs and releases round differently and give other, equally good weights.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.digits.data import Scans, load_scans, split_scans
from scripts.digits.execution import accuracy, calibrate, greatest_error, run
from scripts.digits.network import Array, Network
from scripts.digits.numerics import FoldedSinglePrecision, activation_name, write_model
from scripts.digits.package import WrittenVariant, write_package
from scripts.digits.training import evaluate_in_double_precision, train
from scripts.digits.variants import DYNAMIC_BATCH, VARIANTS, Variant

DEFAULT_OUTPUT = Path(__file__).resolve().parents[1] / "sample_packages" / "digits.ortpackage"
LEAST_ACCURACY = 0.97


def main() -> int:
    """Trains, writes and measures all variants; writes the package if all are good."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.train_digits", description="Write the digits package."
    )
    parser.add_argument(
        "--output", type=Path, default=DEFAULT_OUTPUT, help="the package (default: %(default)s)"
    )
    output = parser.parse_args().output

    training, held_out = split_scans(load_scans())
    print(f"training on {len(training)} scans, {len(held_out)} held out")
    network, model = train(training)
    expected = evaluate_in_double_precision(model, held_out.images)
    calibration = calibrate(
        write_model(
            network, FoldedSinglePrecision(), batch=DYNAMIC_BATCH, doc_string="", metadata={}
        ),
        training,
        [activation_name(layer) for layer in network.convolutions],
    )
    written = tuple(
        write_variant(variant, network, calibration, held_out, expected) for variant in VARIANTS
    )
    shortfalls = [shortfall for measured in written for shortfall in find_shortfalls(measured)]
    if shortfalls:
        print("not written:", *shortfalls, sep="\n  ", file=sys.stderr)
        return 1
    write_package(output, written, held_out, expected)
    print(f"wrote {output}")
    return 0


def write_variant(
    variant: Variant,
    network: Network,
    calibration: dict[str, float],
    held_out: Scans,
    expected: Array,
) -> WrittenVariant:
    """The variant's model, run on the held-out scans."""
    model = variant.write_model(network, calibration)
    logits = run(model, held_out.images)
    written = WrittenVariant(
        variant=variant,
        model=model,
        accuracy=accuracy(logits, held_out),
        greatest_error=greatest_error(logits, expected),
    )
    print(
        f"{variant.name:14} accuracy {written.accuracy:.2%}  greatest error"
        f" {written.greatest_error:.1g}"
    )
    return written


def find_shortfalls(written: WrittenVariant) -> list[str]:
    """What is not good enough. Half a tolerance must be left for the rounding of other devices."""
    shortfalls = []
    if written.accuracy < LEAST_ACCURACY:
        shortfalls.append(
            f"{written.variant.name}: accuracy {written.accuracy:.2%} is below {LEAST_ACCURACY:.0%}"
        )
    if written.greatest_error > written.variant.absolute_tolerance / 2:
        shortfalls.append(
            f"{written.variant.name}: error {written.greatest_error:.1g} is over half its tolerance"
        )
    return shortfalls


if __name__ == "__main__":
    sys.exit(main())
