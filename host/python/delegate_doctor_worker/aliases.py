"""Which nodes share memory, and which write to it, as far as the operators' schemas tell."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree


def written(node: Any) -> list:
    """Nodes whose tensors this node writes to."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return []
    targets = []
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
        targets.extend(leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.fx.Node))
    return targets


def alias_sets(nodes: list) -> dict:
    """A number for every node; nodes that may share memory have the same one."""
    parent = {node: node for node in nodes}

    def root(node: Any) -> Any:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node in nodes:
        if node.op != "call_function":
            continue
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            # Items of a multiple return, and control flow: anything may come back.
            sources = node.all_input_nodes
        else:
            names = {index for index, argument in enumerate(schema.arguments) if argument.alias_info is not None}
            if not any(result.alias_info is not None for result in schema.returns) and not _may_alias(node.target):
                continue
            sources = []
            for index, argument in enumerate(schema.arguments):
                if index in names or _may_alias(node.target):
                    value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
                    sources += [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.fx.Node)]
        for source in sources:
            parent[root(node)] = root(source)
    return {node: id(root(node)) for node in nodes}


def _may_alias(target: Any) -> bool:
    """Operators that give their input back when there is nothing to do, whatever their schema says."""
    name = str(target).split(".")[1] if str(target).count(".") else str(target)
    return name in {"reshape", "contiguous", "to", "dropout", "flatten", "expand_as", "type_as", "view_as", "reshape_as"}
