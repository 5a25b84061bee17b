"""Products of small matrices as sums that the compiler can fuse with what stands around them.

A matrix product is a call of a library, which for a few thousand multiplications takes longer than the multiplications,
and stands between kernels that could be one.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

MOST_PRODUCTS = 1 << 12
"""Multiplications of a product that is written as a sum."""


def fuse_small_products(graph: GraphModule) -> None:
    """Write each small ``a @ b`` of a recorded graph as Σ_k a[:, k, None]·b[None, k, :]."""
    aten = torch.ops.aten
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


def _shape(node: Node, graph: GraphModule) -> torch.Size:
    """Of a result as recorded, or of a constant."""
    found: torch.Size = (
        getattr(graph, str(node.target)).shape if node.op == "get_attr" else node.meta["tensor_meta"].shape
    )
    return found
