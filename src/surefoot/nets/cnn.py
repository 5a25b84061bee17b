"""Convolutions for images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from surefoot.errors import UnsupportedSpaceError
from surefoot.nets.init import Initializer

KERNELS_STRIDES = ((8, 4), (4, 2), (3, 1))
SMALL_KERNELS_STRIDES = ((3, 2), (3, 2), (3, 1))


class CNN(nn.Module):
    """uint8 images [B, H, W, C] or [B, C, H, W] -> [B, n_outputs].

    Kernels and strides are those of Mnih et al. 2015 (8/4, 4/2, 3/1; more layers repeat the last); images with a side
    below 36 pixels, which those would consume, take 3/2, 3/2, 3/1. The channel axis is the smaller of first and last.
    """

    def __init__(self, shape: tuple[int, ...], channels: Sequence[int], n_outputs: int, init: Initializer) -> None:
        super().__init__()
        self._channels_last = shape[2] < shape[0]
        depth, height, width = (shape[2], shape[0], shape[1]) if self._channels_last else shape
        plan = KERNELS_STRIDES if min(height, width) >= 36 else SMALL_KERNELS_STRIDES
        layers: list[nn.Module] = []
        for i, size in enumerate(channels):
            kernel, stride = plan[min(i, len(plan) - 1)]
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if min(height, width) < 1:
                raise UnsupportedSpaceError(
                    f"images of shape {shape} are too small for {len(channels)} convolutions; "
                    "use fewer policy.cnn_channels or flatten them to a float Box"
                )
            layers += [init(nn.Conv2d(depth, size, kernel, stride)), nn.ReLU()]
            depth = size
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        self.project = nn.Sequential(init(nn.Linear(depth * height * width, n_outputs)), nn.ReLU())
        self.n_outputs = n_outputs

    def forward(self, x: Tensor) -> Tensor:
        images = (x.permute(0, 3, 1, 2) if self._channels_last else x).to(torch.float32) / 255.0
        out: Tensor = self.project(self.convolutions(images))
        return out
