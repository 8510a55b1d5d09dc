"""The zoo's networks that no library here brings: written out in torch, random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class InvertedResidual(nn.Module):  # type: ignore[misc]
    """MobileNetV2's block: expand, depthwise, project."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.is_residual = stride == 1 and inputs == outputs
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        layers += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if self.is_residual else y


def mobilenet_v2() -> nn.Module:
    """MobileNetV2, width 1, 1000 classes (Sandler et al. 2018, table 2)."""
    plan = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    layers: list[nn.Module] = [
        nn.Conv2d(3, 32, 3, 2, 1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU6(),
    ]
    inputs = 32
    for expansion, outputs, count, stride in plan:
        for number in range(count):
            layers.append(
                InvertedResidual(inputs, outputs, stride if number == 0 else 1, expansion)
            )
            inputs = outputs
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


class UNet(nn.Module):  # type: ignore[misc]
    """A small U-Net: four levels, two convolutions each, transposed convolutions upwards."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(
            [_double(3 if i == 0 else widths[i - 1], w) for i, w in enumerate(widths)]
        )
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(widths[i + 1], widths[i], 2, 2) for i in (2, 1, 0)]
        )
        self.merge = nn.ModuleList([_double(2 * widths[i], widths[i]) for i in (2, 1, 0)])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, block in enumerate(self.down):
            x = block(x)
            if number < len(self.down) - 1:
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([kept.pop(), up(x)], dim=1))
        y: torch.Tensor = self.head(x)
        return y


def _double(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
    )  # fmt: skip


class Recurrent(nn.Module):  # type: ignore[misc]
    """Two recurrent layers and a classifier of the last step."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.layers = kind(64, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.layers(x)
        z: torch.Tensor = self.head(y[:, -1])
        return z


def mlp() -> nn.Module:
    """Four dense layers."""
    return nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
        nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip
