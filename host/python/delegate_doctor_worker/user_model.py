"""The user's side of the contract: what a model file or a callable must give, and what is said when it
does not.

A model file has ``delegate_doctor_model()`` and ``delegate_doctor_inputs()``, and may have
``delegate_doctor_kwargs()`` and ``delegate_doctor_dynamic_shapes()``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import random
import site
import sys
import sysconfig
import types
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional

import torch

from .errors import WorkerError, name_and_text, short_traceback, surroundings

MODEL = "delegate_doctor_model"
INPUTS = "delegate_doctor_inputs"
KWARGS = "delegate_doctor_kwargs"
DYNAMIC = "delegate_doctor_dynamic_shapes"

EXAMPLE = (
    f"Define `def {MODEL}(): return MyModel()` and "
    f"`def {INPUTS}(): return (torch.randn(1, 3, 224, 224),)` at the top level of the file"
)


@dataclass
class UserModel:
    """A model with what it is exported with."""

    model: torch.nn.Module
    args: tuple
    kwargs: dict = field(default_factory=dict)
    dynamic_shapes: Any = None


def from_file(path: str) -> UserModel:
    module = load_file(path)
    missing = [name for name in (MODEL, INPUTS) if not callable(getattr(module, name, None))]
    if missing:
        names = " and ".join(f"`{name}()`" for name in missing)
        raise WorkerError("model_contract", f"`{path}` does not define {names}", hint=EXAMPLE)
    model = calling(f"{MODEL}()", getattr(module, MODEL))
    inputs = calling(f"{INPUTS}()", getattr(module, INPUTS))
    kwargs = optional(module, KWARGS)
    dynamic = optional(module, DYNAMIC)
    return UserModel(
        checked_model(model, f"{MODEL}()"),
        checked_inputs(inputs, f"{INPUTS}()"),
        checked_kwargs(kwargs, f"{KWARGS}()"),
        dynamic,
    )


def from_callable(module_name: str, callable_name: str) -> UserModel:
    sys.path.insert(0, os.getcwd())
    label = f"{module_name}:{callable_name}"
    try:
        module = running_user_code(f"importing `{module_name}`", lambda: importlib.import_module(module_name))
    except WorkerError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name and module_name.startswith(cause.name):
            raise WorkerError(
                "model_file",
                f"There is no module `{cause.name}`",
                hint="Run from the folder that holds it, or add that folder to PYTHONPATH",
            ) from None
        raise
    target: Any = module
    for part in callable_name.split("."):
        target = getattr(target, part, None)
    if not callable(target):
        raise WorkerError(
            "model_contract",
            f"Module `{module_name}` has no function `{callable_name}`",
            hint=f"Define `def {callable_name}(): return MyModel(), (torch.randn(1, 3, 224, 224),)` in it",
        )
    found = calling(f"{label}()", target)
    if not isinstance(found, (tuple, list)) or len(found) not in (2, 3):
        raise WorkerError(
            "model_contract",
            f"`{label}()` returned {kind_of(found)}, not a model with its inputs",
            hint="Return `(model, inputs)` or `(model, inputs, kwargs)`",
        )
    kwargs = found[2] if len(found) == 3 else None
    return UserModel(
        checked_model(found[0], f"{label}()"),
        checked_inputs(found[1], f"{label}()"),
        checked_kwargs(kwargs, f"{label}()"),
    )


def load_file(path: str) -> types.ModuleType:
    """Imports the file as a module; its folder is searched first, as if it were run."""
    if not os.path.exists(path):
        raise WorkerError("model_file", f"There is no file `{path}`", hint="Check the path of the model file")
    try:
        with open(path, "rb") as stream:
            source = stream.read()
    except OSError as error:
        raise WorkerError("model_file", f"Failed to read `{path}`: {error.strerror}") from None
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        text = (error.text or "").strip()
        raise WorkerError(
            "model_file",
            f"`{path}` is not valid Python: {error.msg}{where}" + (f": `{text}`" if text else ""),
            detail=short_traceback(error),
            hint="Correct the file; `python " + path + "` shows the same error",
        ) from None
    except ValueError as error:
        raise WorkerError("model_file", f"`{path}` is not a Python file: {error}") from None
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.argv = [path]
    name = os.path.splitext(os.path.basename(path))[0]
    if not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names:
        name = f"delegate_doctor_model_file_{abs(hash(path)):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    running_user_code(f"loading `{path}`", lambda: exec(code, module.__dict__))
    return module


def optional(module: types.ModuleType, name: str) -> Any:
    function = getattr(module, name, None)
    if function is None:
        return None
    if not callable(function):
        raise WorkerError("model_contract", f"`{name}` is {kind_of(function)}, not a function")
    return calling(f"{name}()", function)


def calling(label: str, function: Callable) -> Any:
    return running_user_code(f"calling `{label}`", function)


def running_user_code(doing: str, function: Callable[[], Any]) -> Any:
    """Whatever the user's code raises becomes an error of kind ``model_raised``."""
    try:
        return function()
    except WorkerError:
        raise
    except BaseException as error:  # noqa: BLE001 - also SystemExit and KeyboardInterrupt
        raise raised(error, doing) from error


def raised(error: BaseException, doing: str) -> WorkerError:
    trouble = surroundings(error)
    if trouble is not None:
        return trouble
    detail = short_traceback(error)
    if isinstance(error, SystemExit):
        return WorkerError(
            "model_raised",
            f"The model's code ended the program with code {error.code!r} while {doing}",
            detail=detail,
            hint="Move code that belongs to a script under `if __name__ == '__main__':`",
        )
    if isinstance(error, KeyboardInterrupt):
        return WorkerError("model_raised", f"The model's code raised KeyboardInterrupt while {doing}", detail=detail)
    hint = None
    if isinstance(error, ModuleNotFoundError):
        hint = (
            f"Install `{error.name}` into the Python environment ({sys.executable}), or choose another one "
            "with `--python`"
        )
    elif isinstance(error, RecursionError):
        hint = "Look for a function that calls itself without end"
    elif isinstance(error, EOFError):
        hint = "The model's code waits for keyboard input; there is none here"
    elif isinstance(error, TypeError) and "positional argument" in str(error):
        hint = "The functions of the model file are called without arguments"
    from .provenance import innermost_line

    line = innermost_line(detail)
    where = f" (at {line['file']}:{line['line']})" if line is not None else ""
    return WorkerError(
        "model_raised",
        f"The model's code failed while {doing}: {name_and_text(error)}{where}",
        detail=detail,
        hint=hint,
    )


def kind_of(value: Any) -> str:
    if value is None:
        return "nothing (`None`)"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} `{name}`"


def checked_model(model: Any, label: str) -> torch.nn.Module:
    if not isinstance(model, torch.nn.Module):
        hint = "Return an instance of `torch.nn.Module`"
        if isinstance(model, type) and issubclass(model, torch.nn.Module):
            hint = f"Return an instance: `{model.__name__}()` instead of `{model.__name__}`"
        elif isinstance(model, torch.export.ExportedProgram):
            hint = "Save the program with `torch.export.save` and give the `.pt2` file instead"
        raise WorkerError("model_contract", f"`{label}` gave {kind_of(model)} as the model", hint=hint)
    if isinstance(model, torch.jit.ScriptModule):
        raise WorkerError(
            "model_contract",
            f"`{label}` gave a TorchScript module, which cannot be exported",
            hint="Return the original `torch.nn.Module`",
        )
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.device.type != "cpu":
            raise WorkerError(
                "model_contract",
                f"Parameter or buffer `{name}` of the model is on `{tensor.device}`",
                hint="Return the model on the CPU: `model.cpu()`; load weights with `map_location='cpu'`",
            )
    try:
        return model.eval()
    except NotImplementedError:
        # A model that was exported before, as quantization does, has its mode built in and refuses to change it.
        return model


def checked_inputs(inputs: Any, label: str) -> tuple:
    expected = "Return a tensor, or a tuple of the model's positional arguments: `return (torch.randn(1, 3, 224, 224),)`"
    if isinstance(inputs, torch.Tensor):
        args: tuple = (inputs,)
    elif isinstance(inputs, (tuple, list)):
        args = tuple(inputs)
    elif isinstance(inputs, dict):
        raise WorkerError(
            "model_contract",
            f"`{label}` gave a dictionary as the inputs",
            hint=f"Return positional arguments here, and keyword arguments from `{KWARGS}()`",
        )
    else:
        hint = "Wrap it: `torch.from_numpy(array)`" if type(inputs).__module__ == "numpy" else expected
        raise WorkerError("model_contract", f"`{label}` gave {kind_of(inputs)} as the inputs", hint=hint)
    return tuple(checked_leaf(value, label, expected) for value in args)


def checked_kwargs(kwargs: Any, label: str) -> dict:
    if kwargs is None:
        return {}
    expected = "Return a dictionary of the model's keyword arguments: `return {'mask': torch.ones(1, 8)}`"
    if not isinstance(kwargs, dict) or not all(isinstance(name, str) for name in kwargs):
        raise WorkerError("model_contract", f"`{label}` gave {kind_of(kwargs)} as the keyword arguments", hint=expected)
    return {name: checked_leaf(value, label, expected) for name, value in kwargs.items()}


def checked_leaf(value: Any, label: str, expected: str) -> Any:
    """Tensors on the CPU without gradient, inside any lists, tuples and dictionaries."""
    from torch.utils import _pytree as pytree

    def leaf(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            if item.device.type != "cpu":
                raise WorkerError(
                    "model_contract", f"`{label}` gave an input on `{item.device}`", hint="Return inputs on the CPU"
                )
            if item.layout != torch.strided or item.is_quantized:
                raise WorkerError("model_contract", f"`{label}` gave an input of layout `{item.layout}`", hint=expected)
            return item.detach().clone(memory_format=torch.preserve_format)
        if type(item).__module__ == "numpy" and hasattr(item, "__array__") and getattr(item, "ndim", 0):
            raise WorkerError(
                "model_contract",
                f"`{label}` gave a numpy array among the inputs",
                hint="Wrap it: `torch.from_numpy(array)`",
            )
        return item

    return pytree.tree_map(leaf, value)


@contextlib.contextmanager
def apart(seed: int) -> Iterator[None]:
    """Around everything of the user: seeded before, and global settings put back afterwards."""
    before_modules = set(sys.modules)
    saved = (os.getcwd(), list(sys.path), list(sys.argv), torch.get_default_dtype(), torch.get_num_threads())
    recursion = sys.getrecursionlimit()
    deterministic = torch.are_deterministic_algorithms_enabled()
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(saved[0])
        sys.path[:], sys.argv[:] = saved[1], saved[2]
        torch.set_default_dtype(saved[3])
        torch.set_num_threads(saved[4])
        torch.set_default_device(None)
        torch.set_grad_enabled(True)
        torch.use_deterministic_algorithms(deterministic)
        sys.setrecursionlimit(recursion)
        # The next model starts with modules of its own.
        for name in [name for name in sys.modules if name not in before_modules]:
            if is_users(file_of(sys.modules[name])):
                del sys.modules[name]


def sources() -> list[str]:
    """Files of the user's own modules that are loaded now."""
    files = {file_of(module) for module in list(sys.modules.values())}
    return sorted(os.path.abspath(file) for file in files if file is not None and is_users(file))


def file_of(module: Optional[types.ModuleType]) -> Optional[str]:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) and os.path.isfile(file) else None


def _foreign_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib") if key in paths}
    with contextlib.suppress(AttributeError):
        folders.update(site.getsitepackages())
        folders.add(site.getusersitepackages())
    folders.add(os.path.dirname(torch.__path__[0]))
    folders.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(os.path.abspath(folder) + os.sep for folder in folders)


def is_users(file: Optional[str]) -> bool:
    """True for files that are neither of the standard library nor installed nor ours."""
    if file is None or file.startswith("<"):
        return False
    path = os.path.abspath(file)
    parts = path.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return False
    return not path.startswith(_foreign_folders())
