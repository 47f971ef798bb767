"""Tensors in files: raw little-endian elements in row-major order, described by a small record."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from .errors import WorkerError

DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool",
        "complex64", "complex128",
    )
}  # fmt: skip


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in row-major order as a flat tensor of bytes."""
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8)


def dim_order_of(tensor: torch.Tensor) -> list[int]:
    """Dimensions in the order of memory, outermost first; empty for row major and for layouts that no
    order of dimensions describes."""
    if tensor.layout != torch.strided or tensor.is_contiguous() or tensor.numel() == 0:
        return []
    order = sorted(range(tensor.dim()), key=lambda dim: (-tensor.stride(dim), -tensor.size(dim), dim))
    expected = 1
    for dim in reversed(order):
        if tensor.size(dim) != 1 and tensor.stride(dim) != expected:
            return []
        expected *= tensor.size(dim)
    return [] if order == list(range(tensor.dim())) else order


def read(file: dict) -> torch.Tensor:
    """The tensor of a record, laid out as the record says."""
    path = file["path"]
    dtype = DTYPES.get(file["dtype"])
    if dtype is None:
        raise WorkerError("bad_request", f"Tensor `{path}` has element type `{file['dtype']}`, which is unknown")
    sizes = [int(size) for size in file["sizes"]]
    count = 1
    for size in sizes:
        count *= size
    try:
        with open(path, "rb") as stream:
            data = bytearray(stream.read())
    except OSError as error:
        raise WorkerError("disk", f"Failed to read tensor `{path}`: {error.strerror}") from None
    wanted = count * dtype.itemsize
    if len(data) != wanted:
        raise WorkerError("bad_request", f"Tensor `{path}` holds {len(data)} bytes, but its sizes need {wanted}")
    assert sys.byteorder == "little"
    tensor = torch.frombuffer(data, dtype=torch.uint8).view(dtype) if data else torch.empty(0, dtype=dtype)
    tensor = tensor.reshape(sizes)
    order = [int(dim) for dim in file.get("dim_order", [])]
    if order and order != list(range(len(sizes))):
        if sorted(order) != list(range(len(sizes))):
            raise WorkerError("bad_request", f"Tensor `{path}` has the dimension order {order}, which is none")
        inverse = [order.index(dim) for dim in range(len(sizes))]
        tensor = tensor.permute(order).contiguous().permute(inverse)
    return tensor


def write(tensor: torch.Tensor, folder: str, name: str) -> dict:
    """Writes ``<folder>/<name>.bin`` in one step and gives the record."""
    dtype = dtype_name(tensor.dtype)
    if dtype not in DTYPES or tensor.layout != torch.strided or tensor.is_quantized:
        raise WorkerError("bad_request", f"A tensor of type `{dtype}` and layout `{tensor.layout}` cannot be written")
    path = os.path.join(folder, f"{name}.bin")
    payload = raw_bytes(tensor).numpy().data
    write_file(path, payload)
    record: dict[str, Any] = {"path": path, "dtype": dtype, "sizes": list(tensor.shape)}
    order = dim_order_of(tensor)
    if order:
        record["dim_order"] = order
    return record


def write_file(path: str, payload: Any) -> None:
    """Writes a file under another name and renames it, so that it is there wholly or not at all."""
    temporary = os.path.join(os.path.dirname(path), f".writing-{os.getpid()}-{os.path.basename(path)}")
    try:
        with open(temporary, "wb") as stream:
            stream.write(payload)
        os.replace(temporary, path)
    except OSError as error:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise WorkerError(
            "disk",
            f"Failed to write `{path}`: {error.strerror}",
            hint="Check that the folder can be written and the disk is not full",
        ) from None


def same_content(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bit for bit, so that NaN equals itself."""
    return left.shape == right.shape and left.dtype == right.dtype and torch.equal(raw_bytes(left), raw_bytes(right))
