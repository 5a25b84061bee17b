"""The gradient step as one compiled function.

The step is recorded once as a graph of tensor operations and given to torch's compiler directly. Recording executes it,
and what it reads must be among the inputs of the graph: parameters, moments and buffers change between two calls.
`torch.compile` would find these by itself, but takes as long to do so at every call as a small step needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from surefoot.actions.distribution import Family, PackedHeads
from surefoot.algo.batch import Batch
from surefoot.algo.coefficients import Coefficients
from surefoot.algo.objective import StepMetrics, needs_divergence, objective
from surefoot.algo.step import Step, StepResult, combine
from surefoot.config import PPOConfig
from surefoot.fast.code_cache import use_private_cache
from surefoot.fast.graph_rewriting import fuse_small_products, part_biases, simplify_tanh, turn_narrow_products
from surefoot.optim.adam import Adam
from surefoot.optim.flat import FlatParameters
from surefoot.policy.memory import SequenceBatch
from surefoot.policy.policy import Policy

Run = Callable[..., Sequence[Tensor]]
N_SIZES = 4
"""How many sizes minibatches of sequences have at most. `pack` makes none that is larger than the largest."""
N_COMMON = len(Coefficients._fields) - 1
"""Coefficients that are not by head."""


def to_machine_code(graph: GraphModule, inputs: list[Tensor]) -> Run:
    """Compile a recorded graph for inputs like these."""
    use_private_cache()
    import torch._inductor

    part_biases(graph)
    fuse_small_products(graph)
    if inputs[0].device.type == "cpu":
        turn_narrow_products(graph)
    simplify_tanh(graph)
    for node in graph.graph.nodes:
        node.meta.clear()  # shapes as recorded, which the compiler finds again in its own way
    options: dict[str, Any] = {
        "cpp_wrapper": inputs[0].device.type == "cpu",
        "size_asserts": False,  # `CompiledStep` keeps functions for different shapes apart
        "assert_indirect_indexing": False,  # indices are choices that the policy drew
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, while it imports its compiler
        run: Run = torch._inductor.compile(graph, list(inputs), options=options)
    return run


class CompiledStep(Step):
    """The whole step as one function of the flat parameter vector; compiled at the first call of each size."""

    def __init__(
        self,
        policy: Policy,
        family: Family,
        flat: FlatParameters,
        adam: Adam,
        config: PPOConfig,
        compiler: Callable[[GraphModule, list[Tensor]], Run] = to_machine_code,
    ) -> None:
        super().__init__(policy, family, flat, adam, config)
        self._sizes = [slot.where.stop - slot.where.start for slot in flat.slots]
        self._names = flat.names_in(policy)
        self._compiler = compiler
        self._runs: dict[tuple[int, ...], tuple[Run, list[int]]] = {}
        """By numbers of rows, of tensors, of flags in a mask and of rows in memory from one packed entry to the next:
        the compiled function, and which tensors it reads."""
        n_own = len(family.head_names) if config.head_ent_coefs or config.head_ent_coef_floors else 0
        self._numbers = torch.zeros(N_COMMON + n_own, device=flat.values.device)
        self._given: Coefficients | None = None
        self._state = self._all_state()

    def begin(self) -> None:
        super().begin()
        self._state = self._all_state()  # a buffer may have been replaced by another tensor
        self._given = None

    def __call__(self, batch: Batch, coefficients: Coefficients) -> StepResult:
        if coefficients is not self._given:
            *common, of_heads = coefficients
            numbers = [0.0 if c is None else c for c in (*common, *(of_heads or ()))]
            self._numbers.copy_(torch.tensor(numbers))
            self._given = coefficients
        rows = tensors_of(batch)
        count = batch.weight.shape[0]
        if batch.sequences is not None and batch.sequences.length.shape[0] != count:
            raise ValueError(f"{batch.sequences.length.shape[0]} sequences are not padded to {count}, as many as rows")
        mask, heads = batch.mask, batch.heads
        kind = (
            count,
            len(rows),
            0 if mask is None else mask.shape[1],
            0 if heads is None else heads.status.stride(0),
        )
        if kind not in self._runs:
            self._runs[kind] = self._record(batch, rows)
        run, read = self._runs[kind]
        squared_norms, outcome, *step_metrics = run(*self._state, *[rows[i] for i in read])
        return StepResult(self._measured(step_metrics), squared_norms, outcome)

    def sizes(self, usual: int, longest: int) -> tuple[int, ...]:
        """Few, since each is compiled: from hardly more than usual, as many short sequences make it, to what one long
        sequence too many makes of it."""
        least = max(8, usual // 64)
        most = max(least, usual // 2 + longest)
        excess = (round(least * (most / least) ** (i / (N_SIZES - 1))) for i in range(N_SIZES))
        return tuple(sorted({usual + x for x in excess}))

    def _all_state(self) -> list[Tensor]:
        """Everything beside the batch that changes from one call to another."""
        return [
            self.flat.values,
            *self.adam.state,
            self.adam.ahead,
            self._stopped,
            self._numbers,
            *self.policy.buffers(),
        ]

    def _record(self, batch: Batch, rows: list[Tensor]) -> tuple[Run, list[int]]:
        inputs = [*self._state, *rows]
        before = [x.clone() for x in self._state]

        def whole(*given: Tensor) -> list[Tensor]:
            # The state is recognised where the step uses it: recording follows the tensors themselves.
            found = self._whole(with_tensors(batch, list(given[len(self._state) :])))
            return [found.squared_norms, torch.as_tensor(found.outcome), *flattened(found.step_metrics)]

        graph = make_fx(whole, tracing_mode="real")(*inputs)
        for x, saved in zip(self._state, before, strict=True):
            x.copy_(saved)
        read = read_inputs(graph, len(self._state))
        return self._compiler(graph, [*self._state, *[rows[i] for i in read]]), read

    def _whole(self, batch: Batch) -> StepResult:
        rate, clip_range, clip_range_vf, ent_coef, vf_coef = self._numbers[:N_COMMON].unbind()
        vf_range = None if self.config.clip_range_vf is None else clip_range_vf
        of_heads = self._numbers[N_COMMON:] if self._numbers.shape[0] > N_COMMON else None
        bonus = 0.0 if self.config.ent_coef == 0.0 else ent_coef  # no schedule: 0 for good, nothing to differentiate
        coefficients = Coefficients(rate, clip_range, vf_range, bonus, vf_coef, of_heads)
        total = batch.weight.sum()
        gradient = torch.zeros_like(self.flat.values)
        found = []
        for piece in self.pieces(batch):
            part, (_, step_metrics) = grad_and_value(self._loss, has_aux=True)(
                self.flat.values, piece, coefficients, total
            )
            gradient = gradient + part
            found.append(self._measured(step_metrics))
        return self.finish(gradient, combine(found), total, rate)

    def _loss(
        self, values: Tensor, batch: Batch, coefficients: Coefficients, total: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Loss, and the tensors of `StepMetrics`, which are all that may stand beside a loss."""
        pieces = torch.split(values, self._sizes)
        weights = {
            name: piece.view(slot.shape) for name, piece, slot in zip(self._names, pieces, self.flat.slots, strict=True)
        }
        # Parts that are shared are one module under two names, so one name is enough and nothing needs to be tied.
        parameters, prediction = functional_call(
            self.policy, weights, (batch.observation, batch.sequences), tie_weights=False
        )
        loss, step_metrics = objective(
            parameters, prediction, batch, coefficients, self.family, self.policy.critic, self.config
        )
        return loss / total, tuple(flattened(step_metrics))

    def _measured(self, tensors: Sequence[Tensor]) -> StepMetrics:
        """The inverse of `flattened`."""
        loss, largest, *rest = tensors
        has_heads = bool(self.family.head_names)
        kl = rest.pop(0) if needs_divergence(self.config, has_heads) else None
        return StepMetrics(loss, largest, kl, rest.pop(0) if self.config.diagnostics else None)


def read_inputs(graph: GraphModule, first: int) -> list[int]:
    """Which of the inputs from ``first`` on a recorded graph reads; it takes the others no more."""
    given = graph.graph.find_nodes(op="placeholder")[first:]
    for node in given:
        if not node.users:
            graph.graph.erase_node(node)
    graph.recompile()
    return [i for i, node in enumerate(given) if node.users]


def flattened(step_metrics: StepMetrics) -> list[Tensor]:
    """What is there, in a fixed order."""
    return [x for x in step_metrics if x is not None]


def tensors_of(batch: Batch) -> list[Tensor]:
    """The tensors of a batch in a fixed order."""
    sequences = (
        () if batch.sequences is None else (batch.sequences.length, batch.sequences.first, batch.sequences.states)
    )
    return [*batch.observation.values(), *[x for x in batch[1:-2] if x is not None], *(batch.heads or ()), *sequences]


def with_tensors(batch: Batch, tensors: list[Tensor]) -> Batch:
    """A batch like ``batch`` of other tensors; the inverse of `tensors_of`."""
    left = iter(tensors)
    observation = {name: next(left) for name in batch.observation}
    fields: Any = [None if x is None else next(left) for x in batch[1:-2]]
    heads = None if batch.heads is None else PackedHeads(*(next(left) for _ in batch.heads))
    sequences = None if batch.sequences is None else SequenceBatch(*left)
    return Batch(observation, *fields)._replace(heads=heads, sequences=sequences)
