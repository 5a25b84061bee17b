"""The gradient step as one compiled function.

The step is recorded once as a graph of tensor operations and given to torch's compiler directly. Recording executes it,
and what it reads must be among the inputs of the graph: parameters, moments and buffers change between two calls.
`torch.compile` would find these by itself, but takes as long to do so at every call as a small step needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from surefoot.actions.distribution import PackedHeads
from surefoot.algo.batch import Batch
from surefoot.algo.coefficients import Coefficients
from surefoot.algo.objective import AddedTerms, StepMetrics, needs_divergence, objective
from surefoot.algo.step import Step, StepResult, combine
from surefoot.fast.code_cache import use_private_cache
from surefoot.fast.graph_rewriting import (
    fuse_small_products,
    part_biases,
    repeat_by_sections,
    simplify_tanh,
    turn_narrow_products,
)
from surefoot.policy.memory import SequenceBatch
from surefoot.policy.policy import Policy

Run = Callable[..., Sequence[Tensor]]
N_SIZES = 4
"""How many sizes minibatches of sequences have at most. `pack` makes none that is larger than the largest."""
N_COMMON = Coefficients._fields.index("head_ent_coefs")
"""Coefficients that are one number each; after them stand those by head and those of loss terms."""


def to_machine_code(graph: GraphModule, inputs: list[Tensor]) -> Run:
    """Compile a recorded graph for inputs like these."""
    use_private_cache()
    import torch._inductor

    part_biases(graph)
    fuse_small_products(graph)
    if inputs[0].device.type == "cpu":
        turn_narrow_products(graph)
    simplify_tanh(graph)
    repeat_by_sections(graph)
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


class _ActionParameters(nn.Module):
    """The actor of a policy alone, as a module that can be called with other weights."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observation: Mapping[str, Tensor], sequences: SequenceBatch | None) -> Tensor:
        return self.policy.parameters_at(observation, sequences)


class CompiledStep(Step):
    """The whole step as one function of the flat parameter vector; compiled at the first call of each size."""

    def __init__(self, plain: Step, compiler: Callable[[GraphModule, list[Tensor]], Run] = to_machine_code) -> None:
        """In the place of another step, on the same parts."""
        policy, family, flat, config, terms = plain.policy, plain.family, plain.flat, plain.config, plain.terms
        super().__init__(policy, family, flat, plain.optimizer, config, terms)
        self._sizes = [slot.where.stop - slot.where.start for slot in flat.slots]
        self._names = flat.names_in(policy)
        self._actor = _ActionParameters(policy)
        self._compiler = compiler
        self._runs: dict[tuple[int, ...], tuple[Run, list[int]]] = {}
        """By numbers of rows, of tensors, of flags in a mask and of rows in memory from one packed entry to the
        next: the compiled function, and which tensors it reads."""
        self._n_own = len(family.head_names) if config.head_ent_coefs or config.head_ent_coef_floors else 0
        n_numbers = N_COMMON + self._n_own + sum(len(term.numbers) for term in terms)
        self._numbers = torch.zeros(n_numbers, device=flat.values.device)
        self._given: Coefficients | None = None
        self._state = self._all_state()

    def begin(self) -> None:
        super().begin()
        self._state = self._all_state()  # a buffer may have been replaced by another tensor
        self._given = None

    def __call__(self, batch: Batch, coefficients: Coefficients) -> StepResult:
        if coefficients is not self._given:
            self._numbers.copy_(torch.tensor(numbers_of(coefficients)))
            self._given = coefficients
        self.optimizer.prepare()
        count, rows = batch.weight.shape[0], tensors_of(batch)
        drawn = self.draw(count)
        if drawn:
            rows += [x for piece in drawn for of_term in piece for x in of_term]
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
            self._runs[kind] = self._record(batch, rows, [[len(of_term) for of_term in piece] for piece in drawn])
        run, read = self._runs[kind]
        squared_norms, outcome, *step_metrics = run(*self._state, *[rows[i] for i in read])
        return StepResult(self._step_metrics(step_metrics), squared_norms, outcome)

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
            *self.optimizer.tensors(),
            *(x for term in self.terms for x in term.tensors()),
            self._stopped,
            self._numbers,
            *self.policy.buffers(),
        ]

    def _record(self, batch: Batch, rows: list[Tensor], n_drawn: list[list[int]]) -> tuple[Run, list[int]]:
        inputs = [*self._state, *rows]
        before = [x.clone() for x in self._state]
        first_drawn = len(self._state) + len(tensors_of(batch))

        def whole(*given: Tensor) -> list[Tensor]:
            # The state is recognised where the step uses it: recording follows the tensors themselves.
            left = iter(given[first_drawn:])
            drawn = [[[next(left) for _ in range(n)] for n in piece] for piece in n_drawn]
            found = self._whole(with_tensors(batch, list(given[len(self._state) : first_drawn])), drawn)
            return [found.squared_norms, torch.as_tensor(found.outcome), *flattened(found.step_metrics)]

        graph = make_fx(whole, tracing_mode="real")(*inputs)
        for x, saved in zip(self._state, before, strict=True):
            x.copy_(saved)
        read = read_inputs(graph, len(self._state))
        return self._compiler(graph, [*self._state, *[rows[i] for i in read]]), read

    def _coefficients(self) -> Coefficients:
        """As they stand in the tensor of numbers."""
        config, first_term = self.config, N_COMMON + self._n_own
        rate, clip_range, vf_range, ent_coef, vf_coef, critic_rate = self._numbers[:N_COMMON].unbind()
        of_terms = torch.split(self._numbers[first_term:], [len(term.numbers) for term in self.terms])
        return Coefficients(
            rate,
            clip_range,
            None if config.clip_range_vf is None else vf_range,
            0.0 if config.ent_coef == 0.0 else ent_coef,  # no schedule: 0 for good, nothing to differentiate
            vf_coef,
            None if config.critic_learning_rate is None else critic_rate,
            self._numbers[N_COMMON:first_term] if self._n_own else None,
            tuple(numbers.unbind() for numbers in of_terms),
        )

    def _whole(self, batch: Batch, drawn: list[list[list[Tensor]]]) -> StepResult:
        coefficients = self._coefficients()
        total = batch.weight.sum()
        gradient = torch.zeros_like(self.flat.values)
        found = []
        of_pieces = iter(drawn)
        for piece in self.pieces(batch):
            of_piece = next(of_pieces) if self.terms else []
            part, (_, step_metrics) = grad_and_value(self._loss, has_aux=True)(
                self.flat.values, piece, coefficients, total, of_piece
            )
            gradient = gradient + part
            found.append(self._step_metrics(step_metrics))
        return self.finish(gradient, combine(found), total, self.rates(coefficients))

    def _loss(
        self, values: Tensor, batch: Batch, coefficients: Coefficients, total: Tensor, drawn: list[list[Tensor]]
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

        def forward(observation: Mapping[str, Tensor], in_sequence: bool) -> Tensor:
            named = {f"policy.{name}": weight for name, weight in weights.items()}
            sequences = batch.sequences if in_sequence else None
            found: Tensor = functional_call(self._actor, named, (observation, sequences), tie_weights=False)
            return found

        added = AddedTerms(self.terms, drawn, forward)
        loss, step_metrics = objective(
            parameters, prediction, batch, coefficients, self.family, self.policy.critic, self.config, added
        )
        return loss / total, tuple(flattened(step_metrics))

    def _step_metrics(self, tensors: Sequence[Tensor]) -> StepMetrics:
        """The inverse of `flattened`."""
        loss, largest, *rest = tensors
        has_heads = bool(self.family.head_names)
        kl = rest.pop(0) if needs_divergence(self.config, has_heads) else None
        return StepMetrics(loss, largest, kl, rest.pop(0) if self.config.diagnostics else None)


def numbers_of(coefficients: Coefficients) -> list[float]:
    """All of them in one list; 0 for what is not there."""
    common: Any = coefficients[:N_COMMON]
    of_terms = [number for numbers in coefficients.terms for number in numbers]
    return [*(c or 0.0 for c in common), *(coefficients.head_ent_coefs or ()), *of_terms]


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
