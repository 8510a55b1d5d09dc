"""Trains the classifier with PyTorch, the same way every time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from scripts.digits.data import GREATEST_GREY_LEVEL, FloatArray, Scans
from scripts.digits.network import Array, BatchNormalization, ConvolutionLayer, Network

SEED = 20261121
EPOCHS = 60
BATCH_SIZE = 64
PEAK_LEARNING_RATE = 4e-3
WEIGHT_DECAY = 0.05
LABEL_SMOOTHING = 0.1
DROPOUT = 0.3
MOST_DEGREES = 8.0
MOST_SCALING = 0.08
MOST_SHIFT = 0.12
"""Of half the picture's width: half a pixel."""

_CHANNELS = (16, 32, 64)
_POOLED = (False, True, True)
_CLASSES = 10


def train(scans: Scans) -> tuple[Network, torch.nn.Sequential]:
    """Trains on ``scans``: the network as arrays, and its PyTorch model for evaluation."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = _new_model()
    images = torch.from_numpy(scans.images) / GREATEST_GREY_LEVEL
    labels = torch.from_numpy(scans.labels)
    steps = EPOCHS * math.ceil(len(scans) / BATCH_SIZE)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=WEIGHT_DECAY
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=PEAK_LEARNING_RATE, total_steps=steps
    )
    model.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(scans)).split(BATCH_SIZE):
            logits = model(_augmented(images[batch]))
            loss = torch.nn.functional.cross_entropy(
                logits, labels[batch], label_smoothing=LABEL_SMOOTHING
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    return _as_network(model), model


def evaluate_in_double_precision(model: torch.nn.Sequential, images: FloatArray) -> Array:
    """The logits that the trained weights give without float32's rounding.

    What every variant is measured against.
    """
    with torch.no_grad():
        scaled = torch.from_numpy(images).double() / GREATEST_GREY_LEVEL
        return np.asarray(model.double()(scaled).numpy(), dtype=np.float64)


def _new_model() -> torch.nn.Sequential:
    layers: list[Any] = []
    inputs = 1
    for outputs, is_pooled in zip(_CHANNELS, _POOLED, strict=True):
        layers += [
            torch.nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
            torch.nn.BatchNorm2d(outputs),
            torch.nn.ReLU(),
        ]
        layers += [torch.nn.MaxPool2d(2)] if is_pooled else []
        inputs = outputs
    return torch.nn.Sequential(
        *layers,
        torch.nn.Flatten(),
        torch.nn.Dropout(DROPOUT),
        torch.nn.Linear(inputs * 2 * 2, _CLASSES),
    )


def _augmented(images: torch.Tensor) -> torch.Tensor:
    """Each image a little turned, scaled and shifted, by random amounts of its own."""
    count = len(images)
    angle = (torch.rand(count) * 2 - 1) * math.radians(MOST_DEGREES)
    scaling = 1 + (torch.rand(count) * 2 - 1) * MOST_SCALING
    shift = (torch.rand(count, 2) * 2 - 1) * MOST_SHIFT
    cosine, sine = torch.cos(angle) * scaling, torch.sin(angle) * scaling
    transform = torch.stack(
        [
            torch.stack([cosine, -sine, shift[:, 0]], dim=1),
            torch.stack([sine, cosine, shift[:, 1]], dim=1),
        ],
        dim=1,
    )
    grid = torch.nn.functional.affine_grid(transform, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images, grid, align_corners=False)


def _as_network(model: torch.nn.Sequential) -> Network:
    convolutions = [module for module in model if isinstance(module, torch.nn.Conv2d)]
    normalizations = [module for module in model if isinstance(module, torch.nn.BatchNorm2d)]
    layers = [
        ConvolutionLayer(
            name=f"conv{number}",
            # The model takes raw grey levels. Their scaling goes into the first weights, exactly: a
            # power of two.
            weight=_array(convolution.weight) / (GREATEST_GREY_LEVEL if number == 1 else 1),
            normalization=BatchNormalization(
                scale=_array(normalization.weight),
                bias=_array(normalization.bias),
                mean=_array(normalization.running_mean),
                variance=_array(normalization.running_var),
                epsilon=normalization.eps,
            ),
            is_pooled=is_pooled,
        )
        for number, (convolution, normalization, is_pooled) in enumerate(
            zip(convolutions, normalizations, _POOLED, strict=True), start=1
        )
    ]
    linear = model[-1]
    return Network(
        convolutions=tuple(layers),
        linear_weight=_array(linear.weight),
        linear_bias=_array(linear.bias),
    )


def _array(tensor: torch.Tensor) -> Array:
    return np.asarray(tensor.detach().numpy(), dtype=np.float64)
