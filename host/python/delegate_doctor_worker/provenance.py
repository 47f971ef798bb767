"""Where nodes come from: the loaded program's node, the user's line, the module's path; and what was
said on the way."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import warnings
from typing import Any, Iterator, Optional

from .errors import one_sentence
from .user_model import is_users

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+?)\s*$')


def originals(node: Any, graph_id: int) -> list[str]:
    """Names of the nodes of the graph ``graph_id`` that ``node`` was made from, first found first."""
    found: list[str] = []
    seen: set[int] = set()
    pending = list(node.meta.get("from_node") or [])
    while pending:
        source = pending.pop(0)
        if id(source) in seen:
            continue
        seen.add(id(source))
        if source.graph_id == graph_id and source.name and source.name not in found:
            found.append(source.name)
        pending.extend(source.from_node)
    return found


def _frames(stack_trace: str) -> Iterator[dict]:
    lines = stack_trace.splitlines()
    for index, line in enumerate(lines):
        match = _FRAME.match(line)
        if match is None:
            continue
        text = lines[index + 1].strip() if index + 1 < len(lines) and not _FRAME.match(lines[index + 1]) else ""
        yield {
            "file": match["file"],
            "line": int(match["line"]),
            "function": match["function"],
            "text": text,
        }


def innermost_line(stack_trace: Optional[str]) -> Optional[dict]:
    """The innermost line of the user's own code; without one the innermost outside torch and executorch."""
    frames = list(_frames(stack_trace or ""))
    own = [frame for frame in frames if is_users(frame["file"])]
    if own:
        return own[-1]
    installed = [frame for frame in frames if not frame["file"].startswith("<") and not _is_framework(frame["file"])]
    return installed[-1] if installed else None


def _is_framework(file: str) -> bool:
    parts = file.split(os.sep)
    for index, part in enumerate(parts):
        if part in ("site-packages", "dist-packages") and index + 1 < len(parts):
            return parts[index + 1] in ("torch", "executorch", "torchao")
    return not is_users(file)


def module_path(node: Any) -> str:
    """Path of the innermost module that the node was made in: ``decoder.blocks.0.conv1``."""
    stack = node.meta.get("nn_module_stack") or {}
    path = ""
    for entry in stack.values():
        if isinstance(entry, (tuple, list)) and entry and isinstance(entry[0], str):
            # torch marks what it made itself with names of its own functions.
            path = entry[0] if entry[0] and not entry[0].startswith("_empty_nn_module_stack") else path
    path = re.sub(r"^L\['self'\]\.?", "", path)
    path = re.sub(r"\._modules\['([^']+)'\]", r".\1", path)
    # A module that is called again has its count behind an at sign.
    return re.sub(r"@\d+$", "", path).strip(".")


class Notices(logging.Handler):
    """Warnings of torch and executorch, each once, without those that are not about the user's model."""

    _SILENT = re.compile(
        r"deprecat|will be (removed|changed)|KernelPreference|experimental|under active development|"
        r"Skipping import|torchao|not found in the environment|cudagraph|nvidia|No module named",
        re.IGNORECASE,
    )

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            self.add(record.getMessage())

    def add(self, text: str) -> None:
        text = one_sentence(text, 300)
        if text and text not in self._texts and not self._SILENT.search(text):
            self._texts.append(text)

    def texts(self, limit: int = 20) -> list[str]:
        if len(self._texts) > limit:
            return [*self._texts[:limit], f"and {len(self._texts) - limit} more, see the worker log"]
        return list(self._texts)


@contextlib.contextmanager
def noticed() -> Iterator[Notices]:
    """Collects warnings; they also go to the log as before."""
    notices = Notices()
    roots = [logging.getLogger(name) for name in ("torch", "executorch")]
    show = warnings.showwarning

    def both(message: Any, category: Any, *rest: Any, **named: Any) -> None:
        if not issubclass(category, (DeprecationWarning, FutureWarning, PendingDeprecationWarning, ImportWarning)):
            notices.add(str(message))
        show(message, category, *rest, **named)

    for root in roots:
        root.addHandler(notices)
    warnings.showwarning = both
    try:
        yield notices
    finally:
        warnings.showwarning = show
        for root in roots:
            root.removeHandler(notices)
