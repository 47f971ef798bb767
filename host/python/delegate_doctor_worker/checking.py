"""A second opinion on shapes: fake tensors are sent through the loaded graph."""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.export.graph_signature import InputKind, TensorArgument

from .errors import WorkerError, name_and_text, short_traceback
from .programs import STORE, Program, fake_value


def check(params: dict) -> dict:
    program = STORE.get(params["program"])
    _stored_fit(program)
    values = _propagate(program)
    return {
        "values": values,
        "user_inputs": program.user_input_names(),
        "user_outputs": [
            argument.name for argument in program.user_output_args() if isinstance(argument, TensorArgument)
        ],
    }


def _stored_fit(program: Program) -> None:
    """Parameters, buffers and constants must be what the graph says they are."""
    described = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.exported.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT or not isinstance(spec.arg, TensorArgument):
            continue
        try:
            stored = program.bound_value(spec)
        except KeyError:
            raise WorkerError("program_invalid", f"The program has no content for `{spec.target}`") from None
        said = described.get(spec.arg.name)
        if not isinstance(stored, torch.Tensor) or not isinstance(said, torch.Tensor):
            continue
        if tuple(stored.shape) != tuple(said.shape) or stored.dtype != said.dtype:
            raise WorkerError(
                "program_invalid",
                f"The graph takes `{spec.target}` for {said.dtype} of sizes {list(said.shape)}, but it is "
                f"{stored.dtype} of sizes {list(stored.shape)}",
            )


def _propagate(program: Program) -> list[dict]:
    described = [node.meta["val"] for node in program.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    mode = detect_fake_mode(described) or torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
    values: dict[Any, Any] = {}
    answer = []
    with mode, torch.no_grad():
        for node in program.graph.nodes:
            if node.op == "output":
                break
            if node.op == "placeholder":
                value = node.meta.get("val")
                if isinstance(value, torch.Tensor):
                    # A copy: an in-place node may change more than the content.
                    value = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)
            elif node.op == "get_attr":
                value = program.exported.graph_module
                for part in node.target.split("."):
                    value = getattr(value, part)
            else:
                args = torch.fx.node.map_arg(node.args, lambda source: values[source])
                kwargs = torch.fx.node.map_arg(node.kwargs, lambda source: values[source])
                _dimension_fits(node, args, kwargs)
                try:
                    value = node.target(*args, **kwargs)
                except Exception as error:
                    raise WorkerError(
                        "program_invalid",
                        f"Node `{node.name}` ({node.target}) rejects its inputs: {name_and_text(error)}",
                        detail=short_traceback(error),
                    ) from None
            values[node] = value
            if isinstance(value, torch.Tensor):
                answer.append(fake_value(node.name, value))
    return answer


# These take the dimension of the result, which has one more.
_ONE_MORE = {"unsqueeze", "unsqueeze_", "unsqueeze_copy", "stack", "select_scatter"}


def _dimension_fits(node: Any, args: tuple, kwargs: dict) -> None:
    """Some operators, softmax among them, accept on fake tensors a dimension that the tensor lacks."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not args or not isinstance(args[0], torch.Tensor):
        return
    if schema.name.split("::")[-1] in _ONE_MORE:
        return
    rank = max(args[0].dim(), 1)
    for index, argument in enumerate(schema.arguments):
        if argument.name not in ("dim", "dim0", "dim1", "start_dim", "end_dim"):
            continue
        given = args[index] if index < len(args) else kwargs.get(argument.name)
        for dim in given if isinstance(given, (list, tuple)) else (given,):
            if isinstance(dim, int) and not -rank <= dim < rank:
                raise WorkerError(
                    "program_invalid",
                    f"Node `{node.name}` ({node.target}) runs over dimension {dim} of a tensor with {args[0].dim()}",
                )
