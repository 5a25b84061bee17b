"""Multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from surefoot.nets.init import Initializer

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
}


class MLP(nn.Module):
    """[B, n_inputs] -> [B, n_outputs]; each hidden layer is linear, (LayerNorm), activation (O10)."""

    def __init__(
        self, n_inputs: int, hidden_sizes: Sequence[int], activation: str, layer_norm: bool, init: Initializer
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = n_inputs
        for size in hidden_sizes:
            layers.append(init(nn.Linear(width, size)))
            if layer_norm:
                layers.append(nn.LayerNorm(size))
            layers.append(ACTIVATIONS[activation]())
            width = size
        self.layers = nn.Sequential(*layers)
        self.n_outputs = width

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out
