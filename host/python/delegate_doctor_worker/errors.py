"""Errors that the host understands: a stable kind, a sentence, evidence, and what to do."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from typing import Optional

KINDS = (
    "model_file",
    "model_raised",
    "model_contract",
    "export_failed",
    "lowering_failed",
    "program_invalid",
    "run_failed",
    "bad_request",
    "out_of_memory",
    "disk",
    "environment",
    "internal",
)

_HERE = os.path.dirname(os.path.abspath(__file__))
_DETAIL_LIMIT = 20_000


class WorkerError(Exception):
    """An error of a known kind; everything else that is raised becomes kind ``internal``."""

    def __init__(self, kind: str, message: str, *, detail: str = "", hint: Optional[str] = None):
        assert kind in KINDS, kind
        super().__init__(message)
        self.kind = kind
        self.message = one_sentence(message)
        self.detail = detail
        self.hint = hint

    def as_json(self) -> dict:
        detail = self.detail
        if len(detail) > _DETAIL_LIMIT:
            half = _DETAIL_LIMIT // 2
            detail = detail[:half] + "\n[…]\n" + detail[-half:]
        return {"kind": self.kind, "message": self.message, "detail": detail, "hint": self.hint}


def one_sentence(text: str, limit: int = 600) -> str:
    """White space folded, shortened, without a final full stop."""
    text = " ".join(text.split())
    if len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    return text[:-1] if text.endswith(".") and not text.endswith("..") else text


def short_traceback(error: BaseException, *, limit: int = 12) -> str:
    """The traceback of ``error`` without the frames of this package and of the import machinery."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not os.path.abspath(frame.filename).startswith(_HERE) and not frame.filename.startswith("<frozen importlib")
    ]
    shown = frames[-limit:]
    lines = []
    if len(frames) > len(shown):
        lines.append(f"  [{len(frames) - len(shown)} outer calls left out]\n")
    lines.extend(traceback.format_list(shown))
    lines.extend(traceback.format_exception_only(type(error), error))
    return "".join(lines).rstrip()


def text_of(error: BaseException) -> str:
    """The error's own text; errors of user code may fail to give one."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - whatever user code raises
        return ""


def name_and_text(error: BaseException) -> str:
    """``ValueError: text``, the text's first paragraph only."""
    text = text_of(error).strip()
    first = re.split(r"\n\s*\n|\n\s*(?=File \"|Traceback|While executing|Original traceback)", text, maxsplit=1)[0]
    name = type(error).__name__
    return one_sentence(f"{name}: {first}" if first else name, 500)


def surroundings(error: BaseException) -> Optional[WorkerError]:
    """The error as one of the machine (memory, disk) when it is one, also when it is only the cause."""
    seen: set[int] = set()
    current: Optional[BaseException] = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        text = text_of(current)
        if isinstance(current, MemoryError) or "can't allocate memory" in text or "std::bad_alloc" in text:
            wanted = re.search(r"tried to allocate (\d+) bytes", text)
            amount = f" (a block of {int(wanted.group(1)) / 2**30:.1f} GiB was wanted)" if wanted else ""
            return WorkerError(
                "out_of_memory",
                f"Memory ran out{amount}",
                detail=short_traceback(error),
                hint="Try a smaller model or smaller inputs, close other programs, or raise `--memory-limit`",
            )
        if isinstance(current, OSError) and current.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
            where = f" `{current.filename}`" if current.filename else ""
            return WorkerError(
                "disk",
                f"Failed to write{where}: {current.strerror}",
                detail=short_traceback(error),
                hint="Free disk space, or choose another output folder",
            )
        if isinstance(current, subprocess.CalledProcessError) and temporary_disk_is_full():
            return WorkerError(
                "disk",
                f"A program that torch or executorch started failed, and `{tempfile.gettempdir()}` is full",
                detail=short_traceback(error),
                hint="Free disk space there, or set TMPDIR to a folder with room",
            )
        current = current.__cause__ or current.__context__
    return None


def temporary_disk_is_full() -> bool:
    """Whether there is no room for temporary files. What failed may have removed its own already."""
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free < 1 << 20
    except OSError:
        return False


def unexpected(error: BaseException) -> WorkerError:
    """An exception nobody foresaw."""
    return WorkerError(
        "internal",
        f"The worker failed in an unforeseen way: {name_and_text(error)}",
        detail="".join(traceback.format_exception(type(error), error, error.__traceback__)),
        hint="Please report this together with the run folder",
    )


def say(text: str) -> None:
    """A line for the log; stdout belongs to the protocol."""
    print(text, file=sys.stderr, flush=True)
