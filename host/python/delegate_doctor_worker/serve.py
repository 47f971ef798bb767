"""The loop: hello, then one answer a request.

Lines on stdin: ``{"id": 1, "method": "lower", "params": {...}}``. Lines on stdout: first the hello
``{"protocol", "python", "torch", "executorch"}``, then for each request any number of
``{"id": 1, "progress": "text"}`` and one of ``{"id": 1, "ok": {...}}`` or
``{"id": 1, "error": {"kind", "message", "detail", "hint"}}``. End of stdin ends the worker.

Nothing else may reach the host's end of stdout, and user code must not eat requests. So the two pipes
move to private descriptors at the start, descriptor 1 becomes stderr and descriptor 0 the null device:
prints of Python, of C++ and of child processes all end in the log.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import threading
from typing import Any, Callable, Optional

from . import PROTOCOL
from .errors import WorkerError, name_and_text, say, short_traceback, surroundings, unexpected


class Channel:
    """The private ends of the two pipes."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._out = os.dup(1)
        self._in = os.dup(0)
        os.dup2(2, 1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        sys.stdin = open(0, "r", closefd=False)
        sys.stdout = open(1, "w", buffering=1, closefd=False, errors="backslashreplace")
        self.requests: "queue.Queue[Optional[bytes]]" = queue.Queue()
        self._busy = threading.Event()
        threading.Thread(target=self._read, name="requests", daemon=True).start()

    def _read(self) -> None:
        with os.fdopen(self._in, "rb", closefd=False) as stream:
            for line in stream:
                self.requests.put(line)
        if self._busy.is_set():
            # The host is gone or has lost interest: stop at once, with everything that was started.
            if os.getpgrp() == os.getpid():
                os.killpg(os.getpgrp(), signal.SIGKILL)
            os._exit(1)
        self.requests.put(None)

    def next(self) -> Optional[bytes]:
        self._busy.clear()
        line = self.requests.get()
        if line is not None:
            self._busy.set()
        return line

    def write(self, value: dict) -> None:
        if os.getpid() != self._process:
            # A child that user code forked has no say in the protocol; it ends where the worker would go on.
            os._exit(0)
        # Text of user code may hold halves of characters, which are no JSON.
        data = json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]


def version_of(package: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def limit_memory(limit: int) -> None:
    """Lets allocations beyond ``limit`` bytes of private memory fail instead of filling the machine."""
    import resource

    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    try:
        resource.setrlimit(kind, (limit, hard))
    except (OSError, ValueError) as error:
        say(f"the memory limit could not be set: {error}")


def import_libraries(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    import executorch.exir  # noqa: F401
    from executorch.backends.xnnpack.partition import xnnpack_partitioner  # noqa: F401


def broken_libraries(error: BaseException) -> WorkerError:
    return WorkerError(
        "environment",
        f"torch and executorch cannot be imported: {name_and_text(error)}",
        detail=short_traceback(error),
        hint="Run `delegate-doctor doctor`; reinstall torch and executorch, or leave this environment for the managed one",
    )


class Worker:
    """Dispatch of requests; ``report`` tells the host what is being done."""

    def __init__(self, threads: int, memory_limit: Optional[int]) -> None:
        self.threads = threads
        self.memory_limit = memory_limit

    def answer(self, method: str, params: dict, report: Callable[[str], None]) -> dict:
        handler: Optional[Callable[..., dict]] = getattr(self, f"answer_{method}", None)
        if handler is None:
            raise WorkerError("bad_request", f"There is no method `{method}`")
        return handler(params, report)

    def answer_ping(self, params: dict, report: Callable[[str], None]) -> dict:
        return {}

    def answer_describe(self, params: dict, report: Callable[[str], None]) -> dict:
        import platform

        import executorch
        import torch

        return {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "executorch": version_of("executorch"),
            "executorch_folder": list(executorch.__path__)[0],
            "threads": torch.get_num_threads(),
            "cpu": f"{torch.backends.cpu.get_cpu_capability()} {platform.machine()}",
            "memory_limit": self.memory_limit,
        }

    def answer_export(self, params: dict, report: Callable[[str], None]) -> dict:
        from . import export

        return export.export(params, report)

    def answer_lower(self, params: dict, report: Callable[[str], None]) -> dict:
        from . import lowering

        return lowering.lower(params, report)

    def answer_etrecord(self, params: dict, report: Callable[[str], None]) -> dict:
        from . import etrecord

        return etrecord.write(params, report)

    def answer_run(self, params: dict, report: Callable[[str], None]) -> dict:
        from . import running

        return running.run(params)

    def answer_run_many(self, params: dict, report: Callable[[str], None]) -> dict:
        from . import running

        return running.run_many(params)

    def answer_check(self, params: dict, report: Callable[[str], None]) -> dict:
        from . import checking

        return checking.check(params)

    def answer_evaluate(self, params: dict, report: Callable[[str], None]) -> dict:
        from . import running

        return running.evaluate(params)

    def answer_call(self, params: dict, report: Callable[[str], None]) -> dict:
        from . import calling

        return calling.call(params)

    def answer_capture(self, params: dict, report: Callable[[str], None]) -> dict:
        from . import running

        return running.capture(params)


def parse(line: bytes) -> tuple[int, str, dict]:
    try:
        request = json.loads(line)
        number, method, params = request["id"], request["method"], request.get("params", {})
    except (ValueError, KeyError, TypeError) as error:
        raise WorkerError("bad_request", f"A request cannot be read: {name_and_text(error)}") from None
    if not isinstance(number, int) or not isinstance(method, str) or not isinstance(params, dict):
        raise WorkerError("bad_request", "A request has fields of wrong types")
    return number, method, params


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="delegate_doctor_worker")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory-limit", type=int, default=None)
    options = parser.parse_args(arguments)
    channel = Channel()
    hello: dict[str, Any] = {
        "protocol": PROTOCOL,
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": version_of("torch"),
        "executorch": version_of("executorch"),
    }
    channel.write(hello)

    if options.memory_limit is not None:
        limit_memory(options.memory_limit)
    # Imported while the host goes on with its own work; a failure is told with the first answer.
    broken: Optional[WorkerError] = None
    try:
        import_libraries(max(1, options.threads))
    except BaseException as error:  # noqa: BLE001 - whatever a broken installation raises
        broken = surroundings(error) or broken_libraries(error)

    worker = Worker(max(1, options.threads), options.memory_limit)
    while (line := channel.next()) is not None:
        number = 0
        try:
            number, method, params = parse(line)
            if broken is not None and method != "ping":
                raise broken
            answer = {"id": number, "ok": worker.answer(method, params, reporter(channel, number))}
        except WorkerError as error:
            answer = {"id": number, "error": error.as_json()}
        except BaseException as error:  # noqa: BLE001 - the loop must survive
            answer = {"id": number, "error": (surroundings(error) or unexpected(error)).as_json()}
        try:
            channel.write(answer)
        except BrokenPipeError:
            break
    # Threads of user code must not keep the process alive.
    sys.stderr.flush()
    os._exit(0)


def reporter(channel: Channel, number: int) -> Callable[[str], None]:
    def report(text: str) -> None:
        channel.write({"id": number, "progress": text})

    return report
