"""The contract of optimizers: they move all parameters, which are one vector, along one gradient.

To add one: a class in a file of its own, and a line in `optim/build.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor

Rate = Tensor | float
"""Learning rate: a number, a 0-dim tensor, or [P] where tensors have rates of their own."""


class Optimizer(ABC):
    """Moves the parameters ``values`` [P] in place.

    The learning rate is given to every step, so that a schedule or a population that changes it takes effect at once
    (O03). It may be a vector [P]: this is how parts or single tensors get rates of their own.
    """

    @property
    def compilable(self) -> bool:
        """Whether it says of itself that `observe` and `step` can be recorded; if not, `step_` is used."""
        return False

    def begin(self) -> None:  # noqa: B027 - most have nothing to do
        """Before the steps of an update: what follows from the state, found by the host."""

    def prepare(self) -> None:  # noqa: B027
        """Before each step, whatever becomes of it, and outside of what is compiled: draw random numbers."""

    def observe(self, gradient: Tensor, allowed: Tensor | None = None) -> None:  # noqa: B027
        """See the gradient [P] before it is clipped. Where ``allowed`` (0-dim bool) is false nothing may change; None
        is true. Nothing may be read back by the host."""

    @abstractmethod
    def step(self, values: Tensor, gradient: Tensor, learning_rate: Rate, allowed: Tensor) -> None:
        """Move ``values`` where ``allowed`` (0-dim bool), else leave everything as it is, bit for bit.

        No number is read back by the host, so that the step can be compiled and does not wait on an accelerator.
        """

    @abstractmethod
    def step_(self, values: Tensor, gradient: Tensor, learning_rate: Rate) -> None:
        """The same without a condition; the host may read numbers, if that is cheaper."""

    @abstractmethod
    def tensors(self) -> Sequence[Tensor]:
        """Every tensor that `observe` and `step` read or change, beside what they are given: a compiled step takes
        these as inputs. Always the same objects."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """All that the next step depends on, by name."""

    @abstractmethod
    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Restore, into the same tensors."""

    def metrics(self) -> dict[str, float]:
        """By log key, after an update."""
        return {}


def copy_into(state: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Fill tensors with saved ones of the same names; another shape is an error."""
    for name, tensor in state.items():
        if saved[name].shape != tensor.shape:
            raise ValueError(f"the saved {name} has shape {tuple(saved[name].shape)}, not {tuple(tensor.shape)}")
        tensor.copy_(saved[name])
