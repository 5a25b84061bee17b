"""What a recorded graph says in ways that torch's compiler makes faster code of."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

MOST_PRODUCTS = 1 << 12
"""Multiplications of a product that is written as a sum."""
NARROW = 24
"""Columns of a product that is computed the other way round."""
STORED = 16
"""Entries of a reduction that is not computed anew wherever its result is used."""

aten = torch.ops.aten


def fuse_small_products(graph: GraphModule) -> None:
    """Write each small ``a @ b`` as Σ_k a[:, k, None]·b[None, k, :].

    A matrix product is a call of a library, which for a few thousand multiplications takes longer than the
    multiplications, and stands between kernels that could be one.
    """
    for node in graph.graph.find_nodes(op="call_function", target=aten.mm.default):
        a, b = node.args
        rows, columns = _shape(node, graph)
        if rows * columns * _shape(b, graph)[0] > MOST_PRODUCTS:
            continue
        with graph.graph.inserting_before(node):
            left = graph.graph.call_function(aten.unsqueeze.default, (a, 2))
            right = graph.graph.call_function(aten.unsqueeze.default, (b, 0))
            products = graph.graph.call_function(aten.mul.Tensor, (left, right))
            total = graph.graph.call_function(aten.sum.dim_IntList, (products, [1]))
        node.replace_all_uses_with(total)
        graph.graph.erase_node(node)
    graph.recompile()


def turn_narrow_products(graph: GraphModule) -> None:
    """Write each ``aᵀ @ b`` and ``a @ bᵀ`` with few columns as ``(bᵀ @ a)ᵀ`` and ``(b @ aᵀ)ᵀ``, which libraries compute
    up to six times as fast on a processor."""
    for node in graph.graph.find_nodes(op="call_function", target=aten.mm.default):
        a, b = node.args
        if aten.t.default not in (a.target, b.target) or _shape(node, graph)[1] > NARROW:
            continue
        with graph.graph.inserting_before(node):
            first, second = (
                x.args[0] if x.target is aten.t.default else graph.graph.call_function(aten.t.default, (x,))
                for x in (b, a)
            )
            product = graph.graph.call_function(aten.mm.default, (first, second))
            back = graph.graph.call_function(aten.t.default, (product,))
            in_order: Any = {"memory_format": torch.contiguous_format}  # as a view of it may expect
            whole = graph.graph.call_function(aten.clone.default, (back,), in_order)
        node.replace_all_uses_with(whole)
        graph.graph.erase_node(node)
    graph.recompile()


def part_biases(graph: GraphModule) -> None:
    """Write each ``bias + a @ b`` as a product and a difference, which becomes part of what follows.

    In one, the bias is first copied to every row. As a sum, torch's compiler would make it one again.
    """
    for node in graph.graph.find_nodes(op="call_function", target=aten.addmm.default):
        if node.kwargs:
            continue
        bias, a, b = node.args
        with graph.graph.inserting_before(node):
            product = graph.graph.call_function(aten.mm.default, (a, b))
            product.meta = dict(node.meta)
            negative = graph.graph.call_function(aten.neg.default, (bias,))
            whole = graph.graph.call_function(aten.sub.Tensor, (product, negative))
        node.replace_all_uses_with(whole)
        graph.graph.erase_node(node)
    graph.recompile()


def simplify_tanh(graph: GraphModule) -> None:
    """Write each tanh(x) as 1 − 2/(1 + exp(2x)), which is quicker to compute, and wrong by 2.5e-7 at most."""
    for node in graph.graph.find_nodes(op="call_function", target=aten.tanh.default):
        with graph.graph.inserting_before(node):
            twice = graph.graph.call_function(aten.mul.Tensor, (node.args[0], 2.0))
            grown = graph.graph.call_function(aten.exp.default, (twice,))
            below = graph.graph.call_function(aten.add.Tensor, (grown, 1.0))
            share = graph.graph.call_function(aten.reciprocal.default, (below,))
            missing = graph.graph.call_function(aten.mul.Tensor, (share, 2.0))
            whole = graph.graph.call_function(aten.rsub.Scalar, (missing, 1.0))
        node.replace_all_uses_with(whole)
        graph.graph.erase_node(node)
    graph.recompile()


def repeat_by_sections(graph: GraphModule) -> None:
    """Write each ``x[index]`` with a constant index 0, 0, …, 1, 1, … as x's entries, each repeated, in a row.

    An index is read and followed for every single entry. The entries are made by a reduction, whose result a compiled
    function stores instead of finding it anew for every few entries.
    """
    for node in graph.graph.find_nodes(op="call_function", target=aten.index_select.default):
        x, axis, index = node.args
        if axis != 0 or index.op != "get_attr" or len(node.meta["tensor_meta"].shape) != 1:
            continue
        numbers, counts = torch.unique_consecutive(getattr(graph, str(index.target)), return_counts=True)
        if not torch.equal(numbers, torch.arange(len(numbers), device=numbers.device)):
            continue
        with graph.graph.inserting_before(node):
            same = graph.graph.call_function(aten.expand.default, (x, [STORED, len(numbers)]))
            once = graph.graph.call_function(aten.amax.default, (same, [0]))
            sections = []
            for number, count in enumerate(counts.tolist()):
                entry = graph.graph.call_function(aten.slice.Tensor, (once, 0, number, number + 1))
                sections.append(graph.graph.call_function(aten.expand.default, (entry, [count])))
            whole = graph.graph.call_function(aten.cat.default, (sections,))
        node.replace_all_uses_with(whole)
        graph.graph.erase_node(node)
    graph.recompile()


def _shape(node: Node, graph: GraphModule) -> torch.Size:
    """Of a result as recorded, or of a constant."""
    found: torch.Size = (
        getattr(graph, str(node.target)).shape if node.op == "get_attr" else node.meta["tensor_meta"].shape
    )
    return found
