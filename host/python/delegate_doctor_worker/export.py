"""The request ``export``: from what the user pointed at to a ``.pt2`` and input tensors."""

from __future__ import annotations

import copy
import io
import os
import re
import shutil
import time
import warnings
from typing import Any, Callable, Optional

import torch
from torch.export.graph_signature import ConstantArgument, TensorArgument
from torch.utils import _pytree as pytree

from . import provenance, tensors, user_model
from .errors import WorkerError, name_and_text, short_traceback, surroundings
from .programs import Program, load
from .user_model import UserModel


def export(params: dict, report: Callable[[str], None]) -> dict:
    model, out, inputs_dir = params["model"], params["out"], params["inputs_dir"]
    seed = int(params.get("seed", 0))
    if model["kind"] == "program":
        return _take_over(model["path"], out, inputs_dir, seed, report)
    with user_model.apart(seed), provenance.noticed() as notices:
        started = time.perf_counter()
        report("Building the model")
        if model["kind"] == "file":
            given = user_model.from_file(model["path"])
        elif model["kind"] == "callable":
            given = user_model.from_callable(model["module"], model["callable"])
        else:
            raise WorkerError("bad_request", f"There is no kind of model `{model['kind']}`")
        built = time.perf_counter()
        report("Exporting the model")
        program = _export(given)
        exported = time.perf_counter()
        _save(program, out)
        files = _write_inputs(Program(out, program), (given.args, given.kwargs), inputs_dir)
        sources = user_model.sources()
    return {
        "program": out,
        "inputs": files,
        "sources": sources,
        "build_seconds": built - started,
        "export_seconds": exported - built,
        "inputs_from": "user",
        "warnings": notices.texts(),
    }


def _export(given: UserModel) -> torch.export.ExportedProgram:
    try:
        return torch.export.export(
            given.model, given.args, given.kwargs or None, dynamic_shapes=given.dynamic_shapes
        )
    except BaseException as error:  # noqa: BLE001 - user code runs inside
        trouble = surroundings(error)
        if trouble is not None:
            raise trouble from None
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            raise user_model.raised(error, "running the model") from None
        own = _own_failure(given)
        if own is not None:
            raise own from None
        raise WorkerError(
            "export_failed",
            f"torch.export cannot capture the model: {actionable(error)}",
            detail=short_traceback(error),
            hint=_export_hint(error),
        ) from None


def _own_failure(given: UserModel) -> Optional[WorkerError]:
    """The error of a plain run of the model, when that fails too: then export is not to blame."""
    try:
        args, kwargs = copy.deepcopy((given.args, given.kwargs))
        with torch.no_grad():
            given.model(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - the user's code
        failure = user_model.raised(error, "running the model on its own inputs")
        if failure.kind == "model_raised" and failure.hint is None:
            shapes = ", ".join(
                f"{tensors.dtype_name(leaf.dtype)}{list(leaf.shape)}"
                for leaf in pytree.tree_leaves((given.args, given.kwargs))
                if isinstance(leaf, torch.Tensor)
            )
            failure.hint = (
                f"The inputs are {shapes or 'no tensors'}; check that `{user_model.INPUTS}()` fits the model's `forward`"
            )
        return failure
    return None


def actionable(error: BaseException) -> str:
    """What a user can act on: the first paragraph, and the place in the user's code when torch names it."""
    text = name_and_text(error)
    text = re.sub(r"\s*\((Size-like symbols|unhinted): .*?\)+(?=[.\s]|$)", "", text).rstrip(".")
    line = provenance.innermost_line(short_traceback(error, limit=200))
    return f"{text} (at {line['file']}:{line['line']})" if line is not None else text


def _export_hint(error: BaseException) -> str:
    text = str(error)
    if "data-dependent" in text or type(error).__name__.startswith("GuardOnDataDependent"):
        return (
            "The model decides by the values of tensors; use `torch.where` or `torch.cond`, or fix the decision "
            "before export"
        )
    if "dynamic_shapes" in text or "Constraints violated" in text or "dynamic dimension" in text.lower():
        return f"Correct what `{user_model.DYNAMIC}()` returns, or leave it out to export fixed sizes"
    if "fake tensor" in text.lower() or "FakeTensor" in text or "numpy" in text:
        return "The model leaves torch while it runs (numpy, `.item()`, tensors made elsewhere); keep to torch operators"
    return "See the log for the whole message of torch.export"


class _Sink(io.RawIOBase):
    """Takes everything and keeps the first error for later: torch's archive writer ends the whole process
    when a write fails."""

    def __init__(self, file: io.RawIOBase) -> None:
        super().__init__()
        self._file = file
        self.error: Optional[OSError] = None

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def write(self, data) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        while left and self.error is None:
            try:
                left = left[self._file.write(left) :]
            except OSError as error:
                self.error = error
        return size


def _save(program: torch.export.ExportedProgram, out: str) -> None:
    temporary = os.path.join(os.path.dirname(out), f".writing-{os.getpid()}.pt2")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open(temporary, "wb", buffering=0) as file:
                sink = _Sink(file)
                torch.export.save(program, sink)
        if sink.error is not None:
            sink.error.filename = out
            raise sink.error
        os.replace(temporary, out)
    except BaseException as error:  # noqa: BLE001 - nothing half-written may stay
        _unlink(temporary)
        trouble = surroundings(error)
        if trouble is not None:
            raise trouble from None
        if isinstance(error, OSError):
            raise WorkerError(
                "disk", f"Failed to write `{out}`: {error.strerror}", hint="Choose an output folder that can be written"
            ) from None
        # The archive writer reports a full disk in words of its own.
        if "PytorchStreamWriter" in str(error) or "write" in str(error) and "file" in str(error):
            raise WorkerError(
                "disk",
                f"Failed to write `{out}`: {name_and_text(error)}",
                detail=short_traceback(error),
                hint="Free disk space, or choose another output folder",
            ) from None
        raise WorkerError(
            "export_failed",
            f"The exported program cannot be saved: {name_and_text(error)}",
            detail=short_traceback(error),
            hint="The model holds something that the `.pt2` format cannot store, often a custom object or operator",
        ) from None


def _take_over(path: str, out: str, inputs_dir: str, seed: int, report: Callable[[str], None]) -> dict:
    """A ``.pt2`` of the user is copied byte by byte; only its inputs are looked for."""
    report("Loading the program")
    started = time.perf_counter()
    if not os.path.exists(path):
        raise WorkerError("model_file", f"There is no file `{path}`", hint="Check the path of the program")
    with provenance.noticed() as notices:
        program = Program(path, load(path))
        loaded = time.perf_counter()
        samples = program.exported.example_inputs
        if samples is not None and any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(samples)):
            origin = "program"
            files = _write_inputs(program, samples, inputs_dir)
        else:
            origin = "generated"
            files = [
                tensors.write(tensor, inputs_dir, f"input_{index}")
                for index, tensor in enumerate(_generated(program, seed))
            ]
    if os.path.abspath(path) != os.path.abspath(out):
        temporary = os.path.join(os.path.dirname(out), f".writing-{os.getpid()}.pt2")
        try:
            shutil.copyfile(path, temporary)
            os.replace(temporary, out)
        except OSError as error:
            _unlink(temporary)
            raise surroundings(error) or WorkerError(
                "disk", f"Failed to copy `{path}` to `{out}`: {error.strerror}"
            ) from None
    return {
        "program": out,
        "inputs": files,
        "sources": [os.path.abspath(path)],
        "build_seconds": loaded - started,
        "export_seconds": 0.0,
        "inputs_from": origin,
        "warnings": notices.texts(),
    }


def _write_inputs(program: Program, given: Any, inputs_dir: str) -> list[dict]:
    """Writes the tensors among the inputs in the order of the program's user inputs."""
    args, kwargs = given
    spec = program.exported.call_spec.in_spec
    if spec is not None and kwargs:
        # The specification has the keyword arguments in the program's order.
        order = spec.children()[1].context if hasattr(spec, "children") else spec.children_specs[1].context
        kwargs = {name: kwargs[name] for name in order if name in kwargs} | kwargs
    leaves = pytree.tree_leaves((args, kwargs))
    specs = program.user_input_specs()
    if len(leaves) != len(specs):
        raise WorkerError(
            "export_failed",
            f"The exported program takes {len(specs)} inputs, and {len(leaves)} were given",
            hint="Give every argument of the model once, in the order of its `forward`",
        )
    files = []
    for leaf, wanted in zip(leaves, specs):
        if isinstance(wanted.arg, TensorArgument):
            files.append(tensors.write(leaf, inputs_dir, f"input_{len(files)}"))
        elif isinstance(wanted.arg, ConstantArgument):
            if leaf is not None:
                raise WorkerError(
                    "model_contract",
                    f"Input `{wanted.arg.name}` is `{leaf!r:.60}`, and a lowered program takes tensors only",
                    hint="Fix the value in the model, for instance by a small module that passes it on, or make it a tensor",
                )
        else:
            raise WorkerError(
                "export_failed",
                f"Input `{wanted.arg.name}` of the exported program is a changeable number, which is not supported",
                hint="Make it a tensor, or leave it out of the dynamic shapes",
            )
    if not files:
        raise WorkerError(
            "model_contract",
            "The model takes no tensor as input",
            hint=f"Return at least one tensor from `{user_model.INPUTS}()`",
        )
    return files


def _generated(program: Program, seed: int) -> list[torch.Tensor]:
    """Inputs made from the program's own description: standard normal, small whole numbers, coin flips."""
    generator = torch.Generator().manual_seed(seed)
    described = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    made = []
    for name in program.user_input_names():
        said = described[name]
        sizes = [_size(size) for size in said.shape]
        if said.dtype.is_floating_point:
            tensor = torch.randn(sizes, generator=generator).to(said.dtype)
        elif said.dtype.is_complex:
            tensor = torch.randn(sizes, generator=generator, dtype=torch.complex64).to(said.dtype)
        elif said.dtype == torch.bool:
            tensor = torch.randint(0, 2, sizes, generator=generator).bool()
        else:
            tensor = torch.randint(0, 2, sizes, generator=generator).to(said.dtype)
        made.append(tensor)
    return made


def _size(size: Any) -> int:
    """A fixed size, or for a symbolic one its example."""
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    return int(hint) if hint is not None else 2


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
