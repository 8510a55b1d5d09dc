"""Trains the character model and writes sample_packages/tinychar.ortpackage.

Run by hand, never by make.

From the root of the repository::

    pip install torch --index-url https://download.pytorch.org/whl/cpu
    pip install --editable '.[train]'
    python -m scripts.train_tinychar

It takes some minutes. Everything is seeded and runs in one thread: a second run on the same machine
with the same libraries writes the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.tinychar.corpus import load_corpus
from scripts.tinychar.graphs import decode_model, prefill_model, shared_weights
from scripts.tinychar.package import write_package
from scripts.tinychar.training import STEPS, Shape, train

DEFAULT_OUTPUT = Path(__file__).resolve().parents[1] / "sample_packages" / "tinychar.ortpackage"
#: A model that has learned spelling is below this, in nats per character; one that knows letter
#: frequencies is at 3.3.
MOST_LOSS = 2.0


def main() -> int:
    """Trains, and writes the package if the model is good enough."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.train_tinychar", description="Write the tinychar package."
    )
    parser.add_argument(
        "--output", type=Path, default=DEFAULT_OUTPUT, help="the package (default: %(default)s)"
    )
    parser.add_argument(
        "--steps", type=int, default=STEPS, help="of training (default: %(default)s)"
    )
    arguments = parser.parse_args()
    corpus, shape = load_corpus(), Shape()
    weights, loss = train(corpus, shape, steps=arguments.steps)
    print(f"held out: {loss:.3f} nats per character")
    if loss > MOST_LOSS:
        print(f"not written: more than {MOST_LOSS} nats per character", file=sys.stderr)
        return 1
    shared = shared_weights(weights, shape)
    models = {"prefill": prefill_model(shared, shape), "decode": decode_model(shared, shape)}
    write_package(arguments.output, models, corpus, shape, loss)
    print(f"wrote {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
