"""Eager runs: the whole program, parts of it, and looks inside."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch
from torch.utils import _pytree as pytree

from . import aliases, tensors
from .errors import WorkerError
from .programs import STORE, Program, failed_run, untouched


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """Without gradients, from a fixed seed, with algorithms that give the same bits again."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def run(params: dict) -> dict:
    return _run_set(STORE.get(params["program"]), params["inputs"], params["out_dir"])


def run_many(params: dict) -> dict:
    runs = []
    for one in params["sets"]:
        # Looked up again each time: a run that changed the program's buffers has dropped it.
        runs.append(_run_set(STORE.get(params["program"]), one["inputs"], one["out_dir"]))
    return {"runs": runs}


def _run_set(program: Program, files: list[dict], out_dir: str) -> dict:
    given = [tensors.read(file) for file in files]
    untouched_inputs = [tensor.clone() for tensor in given]
    flat = program.flat_inputs(given)
    with repeatable(), untouched(program):
        try:
            args, kwargs = pytree.tree_unflatten(flat, program.exported.call_spec.in_spec)
            result = program.module(*args, **kwargs)
        except Exception as error:
            raise failed_run(error, "The program cannot be run") from None
        outputs = []
        names = []
        leaves = pytree.tree_leaves(result)
        arguments = program.user_output_args()
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                outputs.append(tensors.write(leaf, out_dir, f"output_{len(outputs)}"))
                argument = arguments[index] if index < len(arguments) else None
                names.append(getattr(argument, "name", "") or "")
    mutated = [
        index for index, (now, then) in enumerate(zip(given, untouched_inputs)) if not tensors.same_content(now, then)
    ]
    return {"outputs": outputs, "mutated_inputs": mutated, "names": names}


def capture(params: dict) -> dict:
    program = STORE.get(params["program"])
    given = [tensors.read(file) for file in params["inputs"]]
    program.flat_inputs(given)
    feeds = dict(zip(program.user_input_names(), given))
    return {"values": _values(program, feeds, params["values"], params["out_dir"], whole=True)}


def evaluate(params: dict) -> dict:
    program = STORE.get(params["program"])
    feeds = {}
    for feed in params["feeds"]:
        feeds[feed["name"]] = tensors.read(feed["tensor"])
    return {"values": _values(program, feeds, params["fetch"], params["out_dir"], whole=False)}


def _values(program: Program, feeds: dict[str, torch.Tensor], fetch: list[str], out_dir: str, *, whole: bool) -> list:
    by_name = {node.name: node for node in program.graph.nodes if node.op != "output"}
    for name in (*feeds, *fetch):
        if name not in by_name:
            raise WorkerError("bad_request", f"The program has no value `{name}`")
    fed = {by_name[name]: tensor for name, tensor in feeds.items()}
    wanted = [by_name[name] for name in fetch]
    with repeatable(), untouched(program):
        found = _Part(program, fed, wanted, whole=whole).compute()
    answer = []
    for position, name in enumerate(fetch):
        value = found[by_name[name]]
        if not isinstance(value, torch.Tensor):
            raise WorkerError("bad_request", f"Value `{name}` is no tensor but a {type(value).__name__}")
        answer.append({"name": name, "tensor": tensors.write(value, out_dir, f"value_{position}")})
    return answer


class _Part:
    """The nodes between some given values and some wanted ones."""

    def __init__(self, program: Program, fed: dict, wanted: list, *, whole: bool):
        self._program = program
        self._fed = fed
        self._wanted = set(wanted)
        self._nodes = list(program.graph.nodes)
        self._position = {node: index for index, node in enumerate(self._nodes)}
        last = max((self._position[node] for node in wanted), default=-1)
        if whole:
            self._needed = {node for node in self._nodes[: last + 1] if node not in fed}
        else:
            self._needed = self._slice(wanted, last)
        self._specs = {spec.arg.name: spec for spec in program.exported.graph_signature.input_specs}

    def _slice(self, wanted: list, last: int) -> set:
        """What the wanted values depend on, down to the given ones, writes through aliases included."""
        shared = aliases.alias_sets(self._nodes)
        writers = [(node, written) for node in self._nodes[: last + 1] if (written := aliases.written(node))]
        needed: set = set()

        def need(node: Any) -> None:
            pending = [node]
            while pending:
                current = pending.pop()
                if current in needed or current in self._fed:
                    continue
                needed.add(current)
                pending.extend(current.all_input_nodes)

        for node in wanted:
            need(node)
        grown = True
        while grown:
            grown = False
            for writer, written in writers:
                if writer in needed or writer in self._fed:
                    continue
                sets = {shared[node] for node in written}
                position = self._position[writer]
                live = [node for node in (*needed, *self._fed) if shared[node] in sets]
                made_before = any(self._position[node] < position for node in live)
                used_after = any(
                    self._position[user] > position and (user in needed)
                    for node in live
                    for user in (*node.users, node)
                )
                if made_before and used_after:
                    need(writer)
                    grown = True
        return needed

    def compute(self) -> dict:
        # Given values are copied: an in-place node must not change what the caller holds.
        values: dict = {node: tensor.clone() for node, tensor in self._fed.items()}
        found = {node: values[node].clone() for node in self._wanted if node in values}
        left = {}
        for node in self._needed:
            for source in node.all_input_nodes:
                left[source] = left.get(source, 0) + 1
        for node in self._nodes:
            if node not in self._needed or node.op == "output":
                continue
            values[node] = self._value(node, values)
            if node in self._wanted:
                # As it is when made; later nodes may write to it.
                value = values[node]
                found[node] = value.clone() if isinstance(value, torch.Tensor) else value
            for source in node.all_input_nodes:
                left[source] -= 1
                if left[source] == 0:
                    values.pop(source, None)
        return found

    def _value(self, node: Any, values: dict) -> Any:
        if node.op == "placeholder":
            spec = self._specs.get(node.name)
            try:
                return self._program.bound_value(spec)
            except (KeyError, AttributeError):
                value = getattr(getattr(spec, "arg", None), "value", None)
                if value is not None:
                    return value
                raise WorkerError("bad_request", f"Input `{node.name}` is needed and was not given") from None
        if node.op == "get_attr":
            found: Any = self._program.exported.graph_module
            for part in node.target.split("."):
                found = getattr(found, part)
            return found
        args = torch.fx.node.map_arg(node.args, lambda source: values[source])
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda source: values[source])
        try:
            return node.target(*args, **kwargs)
        except Exception as error:
            raise failed_run(error, f"Node `{node.name}` ({node.target}) cannot be run") from None
