"""One operator on given tensors, outside of any program."""

from __future__ import annotations

from typing import Any

import torch

from . import tensors
from .errors import WorkerError, name_and_text
from .running import repeatable

MEMORY_FORMATS = {
    "contiguous": torch.contiguous_format,
    "preserve": torch.preserve_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
}


def call(params: dict) -> dict:
    """Calls ``aten.softmax.int`` with named arguments; tensors come as files, everything else as JSON."""
    op = _operator(params["op"])
    arguments = {argument["name"]: _value(argument) for argument in params["arguments"]}
    positional, keywords = [], {}
    for argument in op._schema.arguments:
        if argument.name not in arguments:
            continue
        if argument.kwarg_only or len(positional) < op._schema.arguments.index(argument):
            keywords[argument.name] = arguments[argument.name]
        else:
            positional.append(arguments[argument.name])
    try:
        with repeatable():
            result = op(*positional, **keywords)
    except Exception as error:
        raise WorkerError("run_failed", f"`{params['op']}` cannot be evaluated: {name_and_text(error)}") from None
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    written = []
    for index, output in enumerate(outputs):
        if not isinstance(output, torch.Tensor):
            raise WorkerError("run_failed", f"`{params['op']}` gives something that is no tensor")
        written.append(tensors.write(output, params["out_dir"], f"result_{index}"))
    return {"outputs": written}


def _operator(name: str) -> Any:
    parts = name.split(".")
    if len(parts) != 3:
        raise WorkerError("bad_request", f"`{name}` is not the name of an operator's overload")
    try:
        return getattr(getattr(getattr(torch.ops, parts[0]), parts[1]), parts[2])
    except (AttributeError, RuntimeError):
        raise WorkerError("bad_request", f"torch has no operator `{name}`") from None


def _value(argument: dict) -> Any:
    kind, value = argument["kind"], argument["value"]
    if kind == "tensor":
        return tensors.read(value)
    if kind == "tensors":
        return [None if one is None else tensors.read(one) for one in value]
    if kind == "float":
        return float(value)
    if kind == "floats":
        return [float(one) for one in value]
    if kind == "dtype":
        return tensors.DTYPES[value]
    if kind == "memory_format":
        return MEMORY_FORMATS[value]
    if kind == "plain":
        return value
    raise WorkerError("bad_request", f"An argument has the unknown kind `{kind}`")
