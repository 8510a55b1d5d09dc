"""The package's README.md: what the model is, where it comes from, how good each variant is."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.digits.variants import Variant

_CARD = """\
# digits

A small convolutional classifier of handwritten digits, packaged for five kinds of device.

| | |
|---|---|
| input | `image`, float32 [batch, 1, 8, 8]: grey levels from 0 (paper) to 16 (ink) |
| output | `logits`, float32 [batch, 10]: one score per digit; the greatest wins |
| network | 3x3 convolutions (16, 32, 64 channels) with batch normalization and Relu, two max-pools, a linear layer |
| parameters | about 26,000 |
| licence | MIT, like the rest of this repository; the scans: CC BY 4.0, see below |

## Variants

| variant | execution provider | device | batch | accuracy | greatest error | tolerance |
|---|---|---|---|---|---|---|
{rows}

*Accuracy*: share of the held-out scans that are classified right. *Greatest error*: the largest distance of a logit
from what the trained weights give in float64. Both were measured with onnxruntime's CPU provider, which computes the
float16 models in float32. *Tolerance*: what the package allows on the device that the variant is for, as
`absolute + relative x |expected|`. It leaves room for other rounding: float16 arithmetic in full roughly doubles
the error of float16 weights, and integer kernels round halves in different directions.

{summaries}

## Data

The 1,797 scans that scikit-learn ships (`sklearn.datasets.load_digits`): the test part of *Optical Recognition of
Handwritten Digits* by E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998,
<https://doi.org/10.24432/C50P49>, licensed under
[CC BY 4.0](https://creativecommons.org/licenses/by/4.0/). Each pixel counts the inked points of a 4x4 block, 0 to 16.
`samples/` holds {held_out} of the scans, unchanged but for their number format and shape.

## Training and evaluation

`python -m scripts.train_digits` (PyTorch, seeded, one thread) trains on four fifths and writes this whole directory.
The other fifth, every fifth scan of the scans sorted by digit, is held out: it took no part in training, in
calibration or in the choice of any setting. Settings were chosen on a fifth of the training part.

The scans come from 13 people, and the split is by scan, not by person: figures for the handwriting of other people
would be lower. The model knows nothing but digits, centred and scaled as in this data set; it gives every other
picture a digit, too.
"""


def model_card(measured: Sequence[tuple[Variant, float, float]], *, held_out: int) -> str:
    """The card, from each variant's (name, accuracy, greatest error) and the held-out scans."""
    rows = "\n".join(_row(variant, accuracy, error) for variant, accuracy, error in measured)
    summaries = "\n".join(f"- `{variant.name}`: {variant.summary}" for variant, _, _ in measured)
    return _CARD.format(rows=rows, summaries=summaries, held_out=held_out)


def _row(variant: Variant, accuracy: float, error: float) -> str:
    tolerance = f"{variant.absolute_tolerance:g}"
    if variant.relative_tolerance:
        tolerance += f" + {variant.relative_tolerance:g} x"
    batch = "any" if isinstance(variant.batch, str) else str(variant.batch)
    cells = (
        f"`{variant.name}`",
        variant.ep,
        variant.device,
        batch,
        f"{accuracy:.2%}",
        f"{error:.1g}",
        tolerance,
    )
    return f"| {' | '.join(cells)} |"
