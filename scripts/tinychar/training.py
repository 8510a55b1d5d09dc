"""The network and its training: a small transformer over characters, seeded and in one thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from scripts.tinychar.corpus import Corpus

Weights = Mapping[str, npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of the network."""

    layers: int = 3
    heads: int = 4
    width: int = 96
    context: int = 192

    @property
    def head_width(self) -> int:
        return self.width // self.heads


SEED = 1616
STEPS = 1500
BATCH = 16
WINDOW = 128
_WARM_UP = 100
_RATE = 2e-3


class Block(nn.Module):  # type: ignore[misc]
    """Attention and a feed-forward part, each after a normalization, with a residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.project = nn.Linear(shape.width, shape.width)
        self.norm2 = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        result: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.norm2(x))))
        return result


class CharacterModel(nn.Module):  # type: ignore[misc]
    """Characters in, logits of the next character out; the embedding is also the output layer."""

    def __init__(self, shape: Shape, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList([Block(shape) for _ in range(shape.layers)])
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, tokens: torch.Tensor, first: int = 0) -> torch.Tensor:
        """``first``: position of the first character."""
        x = self.tokens(tokens) + self.positions(torch.arange(first, first + tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.norm(x) @ self.tokens.weight.T
        return logits


def train(corpus: Corpus, shape: Shape, *, steps: int = STEPS) -> tuple[Weights, float]:
    """The weights by name, and the loss on the held-out text in nats per character."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = CharacterModel(shape, len(corpus.vocabulary))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, betas=(0.9, 0.99), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    data = torch.from_numpy(corpus.training)
    generator = torch.Generator().manual_seed(SEED)
    for step in range(steps):
        starts = torch.randint(len(data) - WINDOW - 1, (BATCH,), generator=generator)
        windows = torch.stack([data[start : start + WINDOW + 1] for start in starts])
        # A window begins anywhere in the context, so that all positions are learned.
        first = int(torch.randint(shape.context - WINDOW + 1, (1,), generator=generator))
        loss = _loss(model, windows, first)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: {loss.item():.3f} nats per character", flush=True)
    return _weights(model), _held_out_loss(model, corpus, shape)


def _rate(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to a tenth."""
    if step < _WARM_UP:
        return (step + 1) / _WARM_UP
    return 0.1 + 0.9 * 0.5 * (1 + float(np.cos(np.pi * (step - _WARM_UP) / (steps - _WARM_UP))))


def _loss(model: Any, windows: torch.Tensor, first: int = 0) -> torch.Tensor:
    logits = model(windows[:, :-1], first)
    return nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def _held_out_loss(model: Any, corpus: Corpus, shape: Shape) -> float:
    length = min(WINDOW, shape.context - 1)
    data = torch.from_numpy(corpus.held_out)
    count = (len(data) - 1) // length
    with torch.no_grad():
        losses = [
            _loss(model, data[None, i * length : (i + 1) * length + 1]).item() for i in range(count)
        ]
    return float(np.mean(losses))


def _weights(model: Any) -> Weights:
    return {
        name: value.detach().numpy().astype(np.float32).copy()
        for name, value in model.state_dict().items()
    }
