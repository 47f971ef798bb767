"""Loading of ``.pt2`` files, and a small store of loaded ones."""

from __future__ import annotations

import json
import logging
import os
import re
import zipfile
from collections import OrderedDict
from typing import Any, Optional

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from .errors import WorkerError, name_and_text, one_sentence, short_traceback, surroundings

_KEPT = 3


class Program:
    """A loaded program with what requests need of it."""

    def __init__(self, path: str, exported: torch.export.ExportedProgram):
        self.path = path
        self.exported = exported
        self._module: Optional[torch.nn.Module] = None

    @property
    def graph(self) -> torch.fx.Graph:
        return self.exported.graph

    @property
    def module(self) -> torch.nn.Module:
        if self._module is None:
            self._module = self.exported.module()
        return self._module

    def stored_tensors(self) -> list[torch.Tensor]:
        """Parameters, buffers and constants."""
        stored = list(self.exported.state_dict.values()) + list(self.exported.constants.values())
        if self._module is not None:
            stored += list(self._module.parameters()) + list(self._module.buffers())
        return [tensor for tensor in stored if isinstance(tensor, torch.Tensor)]

    def bound_value(self, spec: Any) -> Any:
        """What the program itself gives to an input of its graph; raises ``KeyError`` for user inputs."""
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            stored = self.exported.state_dict
            return stored[spec.target] if spec.target in stored else self.exported.constants[spec.target]
        if spec.kind in (InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ):
            return self.exported.constants[spec.target]
        raise KeyError(spec.target)

    def user_input_specs(self) -> list[Any]:
        return [spec for spec in self.exported.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]

    def user_input_names(self) -> list[str]:
        """Names of the inputs that are tensors."""
        return [spec.arg.name for spec in self.user_input_specs() if isinstance(spec.arg, TensorArgument)]

    def user_output_args(self) -> list[Any]:
        return [
            spec.arg for spec in self.exported.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT
        ]

    def flat_inputs(self, tensors: list[torch.Tensor]) -> list[Any]:
        """All user inputs, with the constants that the program was specialised to in their places."""
        names = self.user_input_names()
        if len(tensors) != len(names):
            raise WorkerError("run_failed", f"The program takes {len(names)} input tensors, and {len(tensors)} were given")
        given = iter(tensors)
        flat = []
        for spec in self.user_input_specs():
            if isinstance(spec.arg, TensorArgument):
                flat.append(next(given))
            elif isinstance(spec.arg, ConstantArgument):
                flat.append(spec.arg.value)
            else:
                raise WorkerError(
                    "run_failed",
                    f"Input `{spec.arg.name}` of the program is a {type(spec.arg).__name__}, which is not supported",
                    hint="Make it a tensor or a fixed number",
                )
        return flat


class _Store:
    """Loaded programs by path, size and time of change, the latest used last."""

    def __init__(self) -> None:
        self._programs: "OrderedDict[tuple, Program]" = OrderedDict()

    @staticmethod
    def _key(path: str) -> tuple:
        try:
            status = os.stat(path)
        except OSError as error:
            raise WorkerError("program_invalid", f"Failed to open program `{path}`: {error.strerror}") from None
        return (os.path.abspath(path), status.st_mtime_ns, status.st_size, status.st_ino)

    def get(self, path: str) -> Program:
        key = self._key(path)
        program = self._programs.pop(key, None)
        if program is None:
            program = Program(path, load(path))
        self._programs[key] = program
        while len(self._programs) > _KEPT:
            self._programs.popitem(last=False)
        return program

    def forget(self, program: Program) -> None:
        for key in [key for key, kept in self._programs.items() if kept is program]:
            del self._programs[key]


STORE = _Store()


class untouched:
    """Leaves the store without a program whose parameters or buffers a run has changed in place, so that
    the next run starts from the file again."""

    def __init__(self, program: Program):
        self._program = program
        self._versions: list[tuple[torch.Tensor, int]] = []

    def __enter__(self) -> None:
        self._versions = [(tensor, tensor._version) for tensor in self._program.stored_tensors()]

    def __exit__(self, *_: Any) -> None:
        if any(tensor._version != version for tensor, version in self._versions):
            STORE.forget(self._program)


class _Collected(logging.Handler):
    """Keeps what torch logs while it loads: its exception says nothing."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.causes: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.causes.append(record.exc_info[1])


def load(path: str) -> torch.export.ExportedProgram:
    """Loads a ``.pt2`` with an error that says what is wrong with it."""
    if not os.path.isfile(path):
        raise WorkerError("program_invalid", f"There is no file `{path}`")
    try:
        return _load_quietly(path)
    except WorkerError:
        raise
    except BaseException as error:  # noqa: BLE001 - torch raises many kinds on bad files
        raise _not_loaded(path, error) from None


FORCE_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def _load_quietly(path: str) -> torch.export.ExportedProgram:
    loggers = [logging.getLogger("torch.export"), logging.getLogger("torch._export"), logging.getLogger("torch.fx")]
    collected = _Collected()
    levels = [(logger, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(collected)
    forced = os.environ.get(FORCE_WEIGHTS_ONLY)
    # Without it torch falls back to unpickling whatever stands there, which runs code that the file brings along.
    os.environ[FORCE_WEIGHTS_ONLY] = "1"
    try:
        return torch.export.load(path)
    except Exception as error:
        if collected.causes:
            cause = collected.causes[-1]
            while cause.__cause__ is not None:
                cause = cause.__cause__
            raise cause from error
        raise
    finally:
        if forced is None:
            del os.environ[FORCE_WEIGHTS_ONLY]
        else:
            os.environ[FORCE_WEIGHTS_ONLY] = forced
        for logger, propagate in levels:
            logger.removeHandler(collected)
            logger.propagate = propagate


def _not_loaded(path: str, error: BaseException) -> WorkerError:
    trouble = surroundings(error)
    if trouble is not None:
        return trouble
    hint = "Export the model again with `torch.export.save`"
    version = schema_version(path)
    if version is not None and version[0] != known_schema_major():
        what = f"it has schema version {version[0]}.{version[1]}, and the installed torch reads {known_schema_major()}"
        hint = "Use a Python environment with the torch version that saved it"
    elif not zipfile.is_zipfile(path):
        what = "it is not a ZIP archive, or it is cut short"
    elif "Weights only load failed" in str(error):
        what = "its weights or sample inputs hold Python objects, and loading those would run code of the file"
        hint = "Save the program again with tensors, numbers, text, lists and dictionaries as inputs"
    elif (unknown := re.search(r"failed to resolve torch\.ops\.(\S+) to an operator", str(error))) is not None:
        what = f"it uses the operator `{unknown[1]}`, which this torch does not have"
        hint = "Use a Python environment in which the library that registers the operator is installed and imported"
    else:
        what = name_and_text(error)
    return WorkerError(
        "program_invalid",
        f"torch cannot load the program `{path}`: {what}",
        detail=short_traceback(error),
        hint=hint,
    )


def known_schema_major() -> int:
    from torch._export.serde.schema import SCHEMA_VERSION

    return int(SCHEMA_VERSION[0])


def schema_version(path: str) -> Optional[tuple[int, int]]:
    description = archive_json(path)
    try:
        version = description["schema_version"]  # type: ignore[index]
        return int(version["major"]), int(version["minor"])
    except (TypeError, KeyError, ValueError):
        return None


def archive_json(path: str) -> Optional[dict]:
    """The program's own description in the archive; ``None`` when there is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                parts = name.split("/")
                if len(parts) == 3 and parts[1] == "models" and parts[2].endswith(".json"):
                    return json.loads(archive.read(name))
    except (OSError, ValueError, zipfile.BadZipFile, KeyError, RuntimeError):
        pass
    return None


def node_names(path: str) -> dict[str, str]:
    """From the name that torch gives a loaded node to the node's name in the archive.

    torch names a node after the tensor it makes, and the item of a multiple return is a node of its own;
    the archive may name the node otherwise.
    """
    description = archive_json(path)
    names: dict[str, str] = {}
    try:
        for node in description["graph_module"]["graph"]["nodes"]:  # type: ignore[index]
            outputs = list(_output_names(node.get("outputs", [])))
            name = node.get("name") or (outputs[0] if outputs else None)
            if not name:
                continue
            for output in outputs:
                names[output] = name
            if len(outputs) != 1:
                names.setdefault(name, name)
    except (TypeError, KeyError, AttributeError):
        return {}
    return names


def _output_names(outputs: list) -> Any:
    for output in outputs:
        for kind, value in output.items():
            if kind == "as_tensor":
                yield value["name"]
            elif kind == "as_tensors":
                for item in value:
                    yield item["name"]
            elif kind in ("as_sym_int", "as_sym_bool", "as_sym_float") and "as_name" in value:
                yield value["as_name"]


def fake_value(name: str, value: torch.Tensor) -> dict:
    return {
        "name": name,
        "dtype": str(value.dtype).removeprefix("torch."),
        "sizes": [size if isinstance(size, int) else str(size) for size in value.shape],
        "strides": [stride if isinstance(stride, int) else str(stride) for stride in value.stride()],
    }


def failed_run(error: BaseException, doing: str) -> WorkerError:
    """An exception of torch during a run, with a hint where there is one."""
    trouble = surroundings(error)
    if trouble is not None:
        return trouble
    text = str(error)
    hint = None
    if "Guard failed" in text or "expected" in text and "shape" in text:
        hint = "Give inputs of the sizes and element types that the program was exported with"
    return WorkerError("run_failed", one_sentence(f"{doing}: {name_and_text(error)}"), detail=short_traceback(error), hint=hint)
