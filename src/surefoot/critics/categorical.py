"""The distribution of the return as probabilities of N atoms."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from surefoot.critics.base import Critic, ValueLoss
from surefoot.critics.support import ReturnRange, carry_over
from surefoot.math.categorical import out_of_support, project, two_hot
from surefoot.math.risk import cvar_from_atoms
from surefoot.math.value_clip import ClipMode, clip_atoms, larger_loss
from surefoot.nets.init import VALUE_GAIN, Initializer

FIRST_SUPPORT = (-10.0, 10.0)
"""Of an adaptive critic until it has seen returns."""
SMALLEST = 1e-6
"""Probability below which a clipped prediction is not punished further; clipping can leave atoms with none."""
CHUNK = 1024
"""Rows projected at once: each takes N² numbers."""


class CategoricalCritic(Critic):
    """Logits over evenly spaced atoms, by cross-entropy / ln N (C03, C07); a uniform prediction has loss 1.

    ``support`` is the lowest and highest atom; None lets it follow the returns. Then the first returns place it, and it
    moves when later ones leave it or have become much narrower, with the predicted distributions carried over.

    With ``backup`` the target is the successor's distribution on r + γ·z, projected onto the atoms, instead of the
    return on the two atoms around it; `QuantileCritic` says what for.
    """

    is_distributional = True
    atoms: Tensor

    def __init__(
        self,
        n_features: int,
        init: Initializer,
        n_atoms: int,
        support: tuple[float, float] | None,
        clip_mode: ClipMode,
        backup: bool,
    ) -> None:
        super().__init__()
        self.n_outputs = n_atoms
        self.output = init(nn.Linear(n_features, n_atoms), VALUE_GAIN)
        self.register_buffer("atoms", torch.linspace(*(support or FIRST_SUPPORT), n_atoms))
        self.range = ReturnRange() if support is None else None
        self._clip_mode, self._backup = clip_mode, backup

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.output(features)
        return out

    def mean(self, prediction: Tensor) -> Tensor:
        return torch.softmax(prediction, -1) @ self.atoms.to(prediction.device)

    def risk(self, prediction: Tensor, alpha: float) -> Tensor:
        return cvar_from_atoms(torch.softmax(prediction, -1), self.atoms.to(prediction.device), alpha)

    def mixture_risk(self, prediction: Tensor, alpha: float) -> Tensor:
        """The atoms are common to all states, so that the mixture has the mean probabilities."""
        probs = torch.softmax(prediction, -1).mean(0)
        return cvar_from_atoms(probs, self.atoms.to(prediction.device), alpha)

    def quantile(self, prediction: Tensor, level: float) -> Tensor:
        """Between atoms too: a mass stands for the returns around its atom, half of them below it."""
        return _between_atoms(torch.softmax(prediction, -1), self.atoms.to(prediction.device), level)

    def loss(self, prediction: Tensor, old: Tensor, targets: Tensor, clip_range: Tensor | float | None) -> ValueLoss:
        log_probs = torch.log_softmax(prediction, -1)
        unclipped = self._cross_entropy(targets, log_probs)
        if clip_range is None:
            return ValueLoss.plain(unclipped)
        probs, old_probs = torch.softmax(prediction, -1), torch.softmax(old, -1)
        moved = clip_atoms(probs, old_probs, self.atoms, clip_range, self._clip_mode)
        clipped = project(probs, moved, self.atoms)
        # Where clipping changed nothing the two losses are one, and must not differ by rounding.
        log_clipped = torch.where(clipped == probs, log_probs, clipped.clamp(min=SMALLEST).log())
        return ValueLoss(*larger_loss(unclipped, self._cross_entropy(targets, log_clipped)))

    def targets(self, returns: Tensor, rewards: Tensor, discounts: Tensor, successors: Tensor) -> Tensor:
        """The distribution to learn, as probabilities of the atoms [T, N, K]."""
        atoms = self.atoms.to(returns.device)
        if not self._backup:
            return two_hot(returns, atoms)
        probs = torch.softmax(successors, -1)
        moved = rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * atoms
        chunks = zip(torch.split(probs.flatten(0, 1), CHUNK), torch.split(moved.flatten(0, 1), CHUNK), strict=True)
        return torch.cat([project(mass, places, atoms) for mass, places in chunks]).view(probs.shape)

    def update_statistics(self, returns: Tensor, valid: Tensor) -> None:
        if self.range is None:
            return
        has_learned = bool(self.range.rollouts)
        self.range.update_statistics(returns, valid)
        atoms = self.range.support(self.atoms)
        if atoms is not self.atoms:
            if has_learned:
                carry_over(self.output, self.atoms, atoms)
            self.atoms.copy_(atoms)

    @torch.no_grad()
    def rescale(self, factor: Tensor, offset: Tensor) -> None:
        """The atoms move and the probabilities stay.

        Atoms that were given stay, and the distributions are carried over to them. Then a mean moves by up to an atom's
        width; a distribution that becomes narrower than that is widened to it, and what leaves the support is lost.
        """
        moved = factor * self.atoms + offset
        if self.range is None:
            carry_over(self.output, moved, self.atoms)
            return
        self.atoms.copy_(moved)
        self.range.rescale(factor, offset)

    def metrics(self, prediction: Tensor, returns: Tensor, valid: Tensor) -> dict[str, float]:
        del prediction
        atoms = self.atoms.to(returns.device)
        outside = out_of_support(returns[valid], atoms)
        return {"train/out_of_support_fraction": float(outside.float().mean())} if outside.numel() else {}

    def _cross_entropy(self, targets: Tensor, log_probs: Tensor) -> Tensor:
        return -(targets * log_probs).sum(-1) / math.log(self.n_outputs)


def _between_atoms(probs: Tensor, atoms: Tensor, level: float) -> Tensor:
    """Q(level), straight between the points (F_k − p_k/2, z_k) and constant beyond them; [..., K] -> [...]."""
    middle = probs.cumsum(-1) - 0.5 * probs
    upper = (middle < level).sum(-1, keepdim=True).clamp(1, atoms.shape[0] - 1)
    below, above = middle.gather(-1, upper - 1), middle.gather(-1, upper)
    share = ((level - below) / (above - below).clamp(min=1e-12)).clamp(0.0, 1.0)
    return torch.lerp(atoms[upper - 1], atoms[upper], share).squeeze(-1)
