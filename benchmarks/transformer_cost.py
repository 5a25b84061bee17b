"""What would a transformer memory cost? One layer over a sliding window, beside the LSTM that Surefoot has.

    python benchmarks/transformer_cost.py

Both remember 64 numbers of 8 envs. Measured are the two places where a memory costs time: one acting step of all envs,
and forward and backward over a minibatch of 512 rows in sequences of 256 (the recurrent workload of `make bench`). The
transformer is torch's own layer (4 heads, feed-forward 256) that attends to the last `window` steps; it is no agent and
learns nothing. Written into `benchmarks/results/transformer.md`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from surefoot.fast.recurrence import recur

WIDTH, ENVS, SEQUENCES, LENGTH, ROUNDS = 64, 8, 2, 256, 40
WINDOWS = (64, 256)
PAGE = Path(__file__).parent / "results" / "transformer.md"


def layer() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)


def milliseconds(actions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Medians of CPU time, in turns."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(ROUNDS):
        for name, action in actions.items():
            began = time.process_time()
            action()
            times[name].append(1e3 * (time.process_time() - began))
    return {name: statistics.median(found[2:]) for name, found in times.items()}


def learning(forward: Callable[[Tensor], Tensor], module: nn.Module, features: Tensor) -> Callable[[], object]:
    def action() -> None:
        module.zero_grad()
        torch.autograd.backward(forward(features).square().mean())

    return action


def act_with_transformer(module: nn.TransformerEncoderLayer, window: int) -> Callable[[], object]:
    """The newest step attends to the window; keys and values of older steps would have to be kept per env."""
    past = torch.randn(ENVS, window, WIDTH)

    def action() -> Tensor:
        with torch.inference_mode():
            query, keys = module.norm1(past[:, -1:]), module.norm1(past)
            attended = module.self_attn(query, keys, keys, need_weights=False)[0] + past[:, -1:]
            out: Tensor = attended + module.linear2(torch.relu(module.linear1(module.norm2(attended))))
            return out

    return action


def learn_with_transformer(module: nn.TransformerEncoderLayer, window: int, features: Tensor) -> Callable[[], object]:
    place = torch.arange(LENGTH)
    distance = place.unsqueeze(1) - place
    hidden = (distance < 0) | (distance >= window)
    return learning(lambda x: module(x, src_mask=hidden), module, features.view(SEQUENCES, LENGTH, WIDTH))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lstm, transformer = nn.LSTM(WIDTH, WIDTH, batch_first=True), layer()
    features, start = torch.randn(SEQUENCES * LENGTH, WIDTH), torch.zeros(SEQUENCES, 2 * WIDTH)
    length = torch.full((SEQUENCES,), LENGTH)
    one, states, ones = torch.randn(ENVS, WIDTH), torch.zeros(ENVS, 2 * WIDTH), torch.ones(ENVS, dtype=torch.int64)
    firsts = torch.arange(ENVS), torch.arange(SEQUENCES)
    acting: dict[str, Callable[[], object]] = {"LSTM": lambda: recur(lstm, one, states, firsts[0], ones)}
    training = {"LSTM": learning(lambda x: recur(lstm, x, start, firsts[1], length), lstm, features)}
    for window in WINDOWS:
        acting[f"transformer, window {window}"] = act_with_transformer(transformer, window)
        training[f"transformer, window {window}"] = learn_with_transformer(transformer, window, features)
    acts, learns = milliseconds(acting), milliseconds(training)
    weights = {"LSTM": sum(p.numel() for p in lstm.parameters())}
    state = {"LSTM": 2 * WIDTH} | {f"transformer, window {window}": window * WIDTH for window in WINDOWS}
    lines = [
        "# What a transformer memory would cost\n",
        f"Made by `python benchmarks/transformer_cost.py`: one layer of {WIDTH}, {ENVS} envs, a minibatch of"
        f" {SEQUENCES} × {LENGTH} rows;\nmedians of CPU time over {ROUNDS} rounds in turns, one thread. State is what"
        " each env must carry, store with each\nstep and save in checkpoints.\n",
        "| memory | weights | state per env | acting step | forward and backward |",
        "|---|--:|--:|--:|--:|",
    ]
    for name in acts:
        count = weights.get(name, sum(p.numel() for p in transformer.parameters()))
        lines.append(f"| {name} | {count:,} | {state[name]:,} | {acts[name]:.2f} ms | {learns[name]:.1f} ms |")
    PAGE.write_text("\n".join(lines) + "\n")
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
