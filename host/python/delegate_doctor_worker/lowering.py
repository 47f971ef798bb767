"""The request ``lower``: from a ``.pt2`` to a ``.pte``, with an account of what stayed outside XNNPACK."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any, Callable, Iterator

import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.emit import _emitter
from executorch.exir.schema import DelegateCall, KernelCall

from . import aliases, provenance, tensors
from .errors import WorkerError, name_and_text, short_traceback, surroundings
from .programs import load, node_names
from .reasons import MARK, Seen, WatchedPartitioner, op_name


def lower(params: dict, report: Callable[[str], None]) -> dict:
    path, out = params["program"], params["out"]
    started = time.perf_counter()
    report("Loading the program")
    # Never from the store: lowering changes what it is given.
    program = load(path)
    origin = _Origin(program, node_names(path))
    partitioner = WatchedPartitioner()
    with provenance.noticed() as notices, emitted() as instructions:
        try:
            report("Lowering for XNNPACK")
            edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
            report("Writing the ExecuTorch program")
            lowered = edge.to_executorch()
            payload = lowered.buffer
        except BaseException as error:  # noqa: BLE001 - many kinds of exceptions, some bare
            raise failed(error) from None
    account = _account(lowered, instructions, partitioner.seen, origin)
    tensors.write_file(out, payload)
    return {
        "program": out,
        "bytes": os.path.getsize(out),
        **account,
        "warnings": notices.texts(),
        "seconds": time.perf_counter() - started,
    }


class _Origin:
    """The loaded program as the place that lowered nodes are traced back to."""

    def __init__(self, program: torch.export.ExportedProgram, names: dict[str, str]):
        # Keeps the graphs alive, so that their numbers stay theirs.
        self._program = program
        self._names = names
        graphs = [program.graph]
        for module in program.graph_module.modules():
            graph = getattr(module, "graph", None)
            if isinstance(graph, torch.fx.Graph) and graph not in graphs:
                graphs.append(graph)
        self._by_name = {(id(graph), node.name): node for graph in graphs for node in graph.nodes}
        self._owners = _owners(program.graph_module)
        self._graph_ids = [id(graph) for graph in graphs]
        self._shared: dict = {}
        self._written: set = set()
        for graph in graphs:
            nodes = list(graph.nodes)
            shared = aliases.alias_sets(nodes)
            self._shared.update(shared)
            self._written.update(shared[target] for node in nodes for target in aliases.written(node))

    def nodes(self, node: Any, op: str) -> list:
        """Nodes of the loaded program that ``node``, a call of the edge operator ``op``, was made from."""
        found = []
        for graph_id in self._graph_ids:
            for name in provenance.originals(node, graph_id):
                original = self._by_name.get((graph_id, name))
                if original is not None and original not in found:
                    found.append(self._replayed(original, op) or original)
        return list(dict.fromkeys(found))

    def names(self, nodes: list) -> list[str]:
        """Their names in the archive; nodes of branches and loops go by the node that runs these."""
        outermost = []
        for node in nodes:
            while id(node.graph) in self._owners:
                node = self._owners[id(node.graph)]
            outermost.append(self._names.get(node.name, node.name))
        return list(dict.fromkeys(outermost))

    def _replayed(self, user: Any, op: str) -> Any:
        """The view that a copy stands for when it bears the name of the view's user.

        Making a program functional repeats the views of memory that was written to, wherever they are
        used, and marks the repetitions as made from their users.
        """
        family = _family(op)
        if not op.split(".")[-2].endswith("_copy") or family == _family(op_name(user.target)):
            return None
        pending = list(user.all_input_nodes)
        for _ in range(32):
            if not pending:
                return None
            candidate = pending.pop(0)
            if candidate.op != "call_function" or self._shared.get(candidate) not in self._written:
                continue
            if _family(op_name(candidate.target)) == family:
                return candidate
            pending.extend(candidate.all_input_nodes)
        return None


def _owners(module: Any) -> dict[int, Any]:
    """From the graph of a branch or a loop to the node that runs it."""
    owners: dict[int, Any] = {}
    graph = getattr(module, "graph", None)
    for node in graph.nodes if isinstance(graph, torch.fx.Graph) else ():
        if node.op != "get_attr":
            continue
        inner = module
        for part in node.target.split("."):
            inner = getattr(inner, part, None)
        if isinstance(getattr(inner, "graph", None), torch.fx.Graph) and node.users:
            owners.setdefault(id(inner.graph), next(iter(node.users)))
            owners.update(_owners(inner))
    return owners


# Views by the operator that they become.
_FAMILIES = {
    "reshape": "view", "flatten": "view", "unflatten": "view", "_unsafe_view": "view", "view_as": "view",
    "transpose": "permute", "t": "permute", "numpy_T": "permute", "movedim": "permute", "swapaxes": "permute",
    "narrow": "slice", "chunk": "split_with_sizes", "split": "split_with_sizes", "unbind": "select",
    "expand_as": "expand", "detach": "alias", "unsafe_chunk": "split_with_sizes",
}  # fmt: skip


def _family(op: str) -> str:
    """``alias`` for ``aten.alias.default`` and for ``aten.alias_copy.default``."""
    parts = op.split(".")
    name = (parts[1] if len(parts) > 1 else op).removesuffix("_copy")
    return _FAMILIES.get(name, name)


@contextlib.contextmanager
def emitted() -> Iterator[dict[int, Any]]:
    """The node that each instruction of the program comes from, as the emitter writes them.

    The numbers are those that the runtime puts into its traces: positions in the method's one chain of
    instructions, those of control flow included.
    """
    by_instruction: dict[int, Any] = {}
    emitter = getattr(_emitter, "_Emitter", None)
    original = getattr(emitter, "run_node", None)
    if emitter is None or original is None:
        yield by_instruction
        return

    def run_node(self: Any, node: Any) -> Any:
        before = len(self.chain.instructions)
        result = original(self, node)
        offset = getattr(self, "instruction_start_offset", 0)
        for index in range(before, len(self.chain.instructions)):
            # Branches of control flow are emitted first and know their nodes better.
            by_instruction.setdefault(offset + index, node)
        return result

    emitter.run_node = run_node
    try:
        yield by_instruction
    finally:
        emitter.run_node = original


def _account(lowered: Any, instructions: dict[int, Any], seen: dict[str, Seen], origin: _Origin) -> dict:
    plan = next(plan for plan in lowered.executorch_program.execution_plan if plan.name == "forward")
    if not instructions:
        instructions = _by_debug_handle(lowered)
    fallbacks = []
    delegates = []
    delegated = 0
    for index, instruction in enumerate(plan.chains[0].instructions):
        call = instruction.instr_args
        node = instructions.get(index)
        if isinstance(call, DelegateCall):
            inside = _nodes_inside(lowered, node)
            delegated += len(inside)
            names: list[str] = []
            for part in inside:
                mine = origin.names(origin.nodes(part, op_name(part.target)))
                names.extend(name for name in mine if name not in names)
            delegates.append({"instruction": index, "original_nodes": names})
        elif isinstance(call, KernelCall):
            operator = plan.operators[call.op_index]
            kernel = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
            fallbacks.append(_fallback(index, kernel, node, seen, origin))
    return {"fallbacks": fallbacks, "delegates": delegates, "delegated_nodes": delegated}


def _fallback(index: int, kernel: str, node: Any, seen: dict[str, Seen], origin: _Origin) -> dict:
    if node is None:
        return {
            "instruction": index,
            "kernel": kernel,
            "edge_op": "",
            "edge_node": "",
            "original_nodes": [],
            "source": None,
            "module_path": "",
            "reason": {"code": "unknown", "text": "it is not known which node this instruction comes from"},
        }
    mark = node.meta.get(MARK)
    known = seen.get(mark) if mark else None
    op = known.op if known is not None else _functional(op_name(node.target))
    made_from = origin.nodes(node, op)
    # The loaded program's own account of its lines, where it has one.
    told = next((original for original in made_from if original.meta.get("stack_trace")), node)
    return {
        "instruction": index,
        "kernel": kernel,
        "edge_op": op,
        "edge_node": known.name if known is not None else node.name,
        "original_nodes": origin.names(made_from),
        "source": provenance.innermost_line(told.meta.get("stack_trace")),
        "module_path": provenance.module_path(told),
        "reason": _reason(node, known),
    }


def _functional(op: str) -> str:
    """``aten.mul.Tensor`` for the name of a kernel that writes to a given tensor, where the name tells."""
    head, _, overload = op.rpartition(".")
    if overload == "out":
        return f"{head}.default"
    return f"{head}.{overload.removesuffix('_out')}" if head else op


def _reason(node: Any, known: Any) -> dict:
    if known is not None and not known.taken:
        reason = {"code": known.code, "text": known.text}
        if known.objections:
            reason["partitioner"] = "; ".join(known.objections)
        return reason
    if known is not None:
        return {
            "code": "inserted-after-partitioning",
            "text": f"a later pass made it from `{known.op}`, which the partitioner had taken",
        }
    if _in_control_flow(node):
        return {
            "code": "constraint",
            "text": "it is inside a branch or loop, which XNNPACK's partitioner does not enter",
        }
    return {
        "code": "inserted-after-partitioning",
        "text": "a pass of ExecuTorch inserted it after the partitions were made",
    }


def _in_control_flow(node: Any) -> bool:
    module = node.graph.owning_module
    return module is not None and bool(node.meta.get("from_node")) and not any(
        part.op == "call_function" and MARK in part.meta for part in node.graph.nodes
    )


def _nodes_inside(lowered: Any, node: Any) -> list:
    """Calls inside the delegate that ``node`` runs."""
    if node is None or node.target is not executorch_call_delegate:
        return []
    attribute = node.args[0]
    owner = node.graph.owning_module or lowered.exported_program("forward").graph_module
    module = getattr(owner, attribute.target, None)
    original = getattr(module, "original_module", None)
    if original is None:
        return []
    return [
        part
        for part in original.graph.nodes
        if part.op == "call_function" and getattr(part.target, "__name__", "") != "getitem"
    ]


def _by_debug_handle(lowered: Any) -> dict[int, Any]:
    """What the emitter leaves in the nodes it has emitted: the number of their instruction."""
    found = {}
    for module in lowered.exported_program("forward").graph_module.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if isinstance(graph, torch.fx.Graph) else ():
            handle = node.meta.get("debug_handle")
            if node.op == "call_function" and isinstance(handle, int):
                found.setdefault(handle, node)
    return found


def failed(error: BaseException) -> WorkerError:
    trouble = surroundings(error)
    if trouble is not None:
        return trouble
    text = str(error)
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    hint = "See the log for the whole message of ExecuTorch"
    missing = re.search(r"Missing out variants?: \{([^}]*)\}", text)
    if missing is not None:
        what = missing[1].replace("'", "`")
        return WorkerError(
            "lowering_failed",
            f"ExecuTorch has no kernel for {what}",
            detail=short_traceback(error),
            hint="Express the operator with others that ExecuTorch has, or register a kernel for it",
        )
    whole = re.search(r"op <EdgeOpOverload: ([\w.]+)>.*was not decomposed or delegated", text, re.DOTALL)
    if whole is not None:
        return WorkerError(
            "lowering_failed",
            f"ExecuTorch kept `{whole[1]}` whole for XNNPACK, and XNNPACK's partitioner did not take it",
            detail=short_traceback(error),
            hint="This happens to operators inside `torch.cond` and loops, and to unusual element types",
        )
    if "not in Core ATen" in text or "SpecViolationError" in type(error).__name__:
        hint = "The model uses an operator that ExecuTorch's edge dialect does not have; express it with others"
    elif "pass through arguments" in text:
        hint = "The model returns a value twice, or a copy of it that does nothing (`clone`, `x + 0`); return it once"
    elif "dynamic" in text.lower() or "symbol" in text.lower():
        hint = "Export with fixed sizes, or with upper bounds for the changeable ones"
    place = provenance.innermost_line(text)
    where = f" (from {place['file']}:{place['line']})" if place is not None else ""
    return WorkerError(
        "lowering_failed",
        f"ExecuTorch cannot lower the program: {name_and_text(cause)}{where}",
        detail=short_traceback(error, limit=30),
        hint=hint,
    )
