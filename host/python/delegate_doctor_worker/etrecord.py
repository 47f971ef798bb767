"""The request ``etrecord``: what ExecuTorch's Inspector needs beside a trace to name operators and lines."""

from __future__ import annotations

import os
from typing import Callable

from executorch.exir import to_edge_transform_and_lower

from .lowering import failed
from .programs import load
from .reasons import WatchedPartitioner


def write(params: dict, report: Callable[[str], None]) -> dict:
    """Lowers the program again, as ``lower`` does, and keeps the record that this leaves."""
    out = params["out"]
    report("Loading the program")
    program = load(params["program"])
    partial = f"{out}.part"
    try:
        report("Lowering for XNNPACK, with a record")
        edge = to_edge_transform_and_lower(program, partitioner=[WatchedPartitioner()], generate_etrecord=True)
        edge.to_executorch().get_etrecord().save(partial)
    except BaseException as error:  # noqa: BLE001 - many kinds of exceptions, some bare
        raise failed(error) from None
    os.replace(partial, out)
    return {"bytes": os.path.getsize(out)}
