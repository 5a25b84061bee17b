"""The contract of loss terms: what may be added to PPO's objective.

To add one: a class in a file of its own, and a line in `algo/loss_terms.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from torch import Tensor

if TYPE_CHECKING:
    from surefoot.actions.distribution import Distribution
    from surefoot.algo.batch import Batch
    from surefoot.algo.record import UpdateRecord


class TermMetric(NamedTuple):
    """A log key of a loss term, for the table of all metrics."""

    key: str
    reduce: Literal["mean", "min", "max"]
    unit: str
    meaning: str


class TermInputs(NamedTuple):
    """What a loss term is computed from: B rows, as the policy sees them now."""

    parameters: Tensor
    """[B, P] of the action distribution."""
    distribution: Distribution
    batch: Batch
    log_ratio: Tensor
    """[B] ln π/π_old of the stored actions, before any bound."""
    policy_loss: Tensor
    """[B] clipped surrogate loss."""
    entropy: Tensor
    """[B] of the policy; differentiable if `coefficients.rewards_entropy`."""
    forward: Callable[[Mapping[str, Tensor], bool], Tensor]
    """Action parameters [·, P] of other observations. With ``in_sequence`` they stand in place of the batch's own, row
    by row and in its sequences; else each is a first step."""


class TermResult(NamedTuple):
    """One value per row [B], or one for all rows (0-dim)."""

    loss: Tensor
    """Before its coefficient."""
    metrics: tuple[Tensor, ...]
    """One for each of the term's `metrics`, in their order."""


class LossTerm(ABC):
    """A loss that is added to PPO's, times a coefficient.

    One that is `compilable` is recorded with the whole step: it is made of tensor operations, without a branch on
    their values.
    """

    name: ClassVar[str]
    """How its state and its coefficient are called."""
    metrics: ClassVar[tuple[TermMetric, ...]]
    """What it logs of each minibatch."""
    needs_masks: ClassVar[bool] = False
    """Whether it binds distributions of its own, so that the batch must keep the masks of legal actions."""
    compilable: ClassVar[bool] = False
    """Whether it says of itself that it can be recorded; if not, the step runs in plain torch."""

    def __init__(self, *numbers: float | str) -> None:
        self.numbers: tuple[float | str, ...] = numbers
        """Its coefficient, then any other number that may change over a run: numbers or schedules."""

    @abstractmethod
    def __call__(self, inputs: TermInputs, numbers: Sequence[Tensor | float], drawn: Sequence[Tensor]) -> TermResult:
        """The loss of B rows. ``numbers`` are its own as they stand in this update; ``drawn`` is what `draw` gave."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to do
        """Before training, perhaps several times: read what only training needs; a mistake in it is an error here."""

    def begin(self, advantages: Tensor, weight: Tensor) -> None:  # noqa: B027
        """Before an update on rows [T·N] with these normalized advantages."""

    def draw(self, n_rows: int) -> tuple[Tensor, ...]:
        """What it needs beside a minibatch of so many rows, such as random numbers; always of the same shapes."""
        return ()

    def tensors(self) -> Sequence[Tensor]:
        """What else it reads and may change between two steps: a compiled step takes these as inputs."""
        return ()

    def advance(self, record: UpdateRecord) -> None:  # noqa: B027
        """After an update that made steps: a coefficient may react to what it did."""

    def restart(self) -> None:  # noqa: B027
        """Begin anew with a coefficient that has reacted; called when schedules begin anew."""

    def state_dict(self) -> dict[str, Tensor]:
        """What the next update depends on, by name."""
        return {}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Restore."""
