"""Why XNNPACK's partitioner left a node outside, in plain words and with its own.

The partitioner says its reasons only to a debug log, and says nothing about operators it has no entry
for. Here its decisions are watched while it makes them: for every node whether it has an entry for the
operator, and what it objected to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional

import contextlib

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name
from executorch.exir.backend.utils import WhyNoPartition

# Carried by a node through later passes, which rename nodes.
MARK = "delegate_doctor_edge_node"

FLOATS = (torch.float32, torch.float16)


@dataclass
class Seen:
    """A node as the partitioner saw it."""

    name: str
    op: str
    has_entry: bool
    taken: bool
    objections: list[str] = field(default_factory=list)
    code: str = ""
    text: str = ""


class WatchedPartitioner(XnnpackPartitioner):
    """The partitioner itself, with its decisions kept in ``seen``, by node name."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, Seen] = {}

    def partition(self, exported_program: Any) -> Any:
        with objections() as heard:
            result = super().partition(exported_program)
        for node in exported_program.graph.nodes:
            if node.op != "call_function":
                continue
            target = getattr(node.target, "__name__", str(node.target))
            has_entry = format_target_name(target) in self.target_partitioner_configs
            seen = Seen(
                name=node.name,
                op=op_name(node.target),
                has_entry=has_entry,
                taken="delegation_tag" in node.meta,
                objections=heard.get(node, []),
            )
            if not seen.taken:
                seen.code, seen.text = explain(node, seen)
                if seen.code != "dtype" and "invalid dtype" in seen.objections:
                    # Its words are about something else than its reason.
                    seen.objections = []
            self.seen[node.name] = seen
            node.meta[MARK] = node.name
        return result


@contextlib.contextmanager
def objections() -> Iterator[dict[Any, list[str]]]:
    """What the partitioner says about nodes, in the order in which it says it."""
    heard: dict[Any, list[str]] = {}
    original: Callable = WhyNoPartition.__call__

    def listening(self: Any, node: Any = None, reason: str = "", *rest: Any, **named: Any) -> None:
        # Some of its callers leave the node out and pass the reason alone.
        if isinstance(node, torch.fx.Node):
            said = heard.setdefault(node, [])
            if str(reason) not in said:
                said.append(str(reason))
            original(self, node, reason, *rest, **named)

    WhyNoPartition.__call__ = listening  # type: ignore[method-assign]
    try:
        yield heard
    finally:
        WhyNoPartition.__call__ = original  # type: ignore[method-assign]


def op_name(target: Any) -> str:
    """``aten._softmax.default`` for every dialect of it."""
    name = getattr(target, "_name", None) or getattr(target, "name", None)
    if callable(name):
        name = name()
    text = name if isinstance(name, str) else str(target)
    text = text.replace("::", ".").removeprefix("torch.ops.")
    return text if text.count(".") != 1 or not hasattr(target, "_schema") else f"{text}.default"


def explain(node: Any, seen: Seen) -> tuple[str, str]:
    """Code and sentence for a node that was not taken."""
    if not seen.has_entry:
        return "no-config", f"XNNPACK's partitioner has no entry for `{seen.op}`"
    said = seen.objections
    if "invalid dtype" in said or any("mixed input dtypes" in reason for reason in said):
        return _dtypes(node)
    for reason in said:
        sentence = _plain(node, reason)
        if sentence is not None:
            return ("dtype" if "dtype" in reason else "constraint"), sentence
    if said:
        return "constraint", said[-1].strip().rstrip(".")
    if "slice" in seen.op and _argument(node, "step", 1) != 1:
        # Refused without a word.
        return "constraint", _slice(node)
    return "unknown", f"XNNPACK's partitioner has an entry for `{seen.op}`, but did not take this node and gave no reason"


def _dtypes(node: Any) -> tuple[str, str]:
    """What the element types, and with them the sizes, are that it cannot take."""
    inputs = [
        source.meta["val"] for source in node.all_input_nodes if isinstance(source.meta.get("val"), torch.Tensor)
    ]
    value = node.meta.get("val")
    outputs = [item for item in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(item, torch.Tensor)]
    if any(not isinstance(source.meta.get("val"), torch.Tensor) for source in node.all_input_nodes):
        return "constraint", "a size or another input is a number that is only known at run time"
    for tensor in inputs:
        sizes = [size for size in tensor.shape]
        if any(isinstance(size, int) and size == 0 for size in sizes):
            return "constraint", "an input has no elements, which XNNPACK does not support"
    names = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in inputs})
    others = [name for name in names if name not in ("float32", "float16")]
    if others:
        return "dtype", f"an input has element type {_listed(others)}; XNNPACK takes float32 and float16 here"
    if len(names) > 1:
        return "dtype", f"inputs have different element types ({_listed(names)}), which XNNPACK does not support"
    wrong = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in outputs if tensor.dtype not in FLOATS})
    if wrong:
        return "dtype", f"an output has element type {_listed(wrong)}; XNNPACK gives float32 and float16 here"
    return "constraint", "a size is only known at run time"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _argument(node: Any, name: str, default: Any = None) -> Any:
    """The value of an argument of the node by its name in the schema."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return default
    for index, argument in enumerate(schema.arguments):
        if argument.name == name:
            if index < len(node.args):
                return node.args[index]
            return node.kwargs.get(name, argument.default_value)
    return default


def _sizes(node: Any) -> Optional[list]:
    value = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
    return list(value.shape) if isinstance(value, torch.Tensor) else None


def _softmax(node: Any, _: "re.Match") -> str:
    rank = len(_sizes(node) or [])
    dim = _argument(node, "dim")
    if isinstance(dim, int) and dim < 0:
        dim += rank
    return f"it runs over dimension {dim} of {rank}, and XNNPACK's softmax runs over the last dimension only"


def _concatenation(node: Any, _: "re.Match") -> str:
    return (
        f"it joins {len(node.all_input_nodes)} distinct tensor, and XNNPACK's concatenation takes at least two "
        "distinct ones"
    )


def _padded_average(node: Any, _: "re.Match") -> str:
    return (
        f"it averages over zero padding (padding {_argument(node, 'padding')}, count_include_pad=True), and XNNPACK's "
        "average pooling leaves padding out of the average"
    )


def _divisor(node: Any, _: "re.Match") -> str:
    return (
        f"it divides by {_argument(node, 'divisor_override')}, and XNNPACK's average pooling divides by the size of "
        "the window"
    )


def _mean(node: Any, _: "re.Match") -> str:
    return (
        f"it takes the mean over dimensions {_argument(node, 'dim')} with keepdim={_argument(node, 'keepdim')}, and "
        "XNNPACK takes it over the last two of four dimensions with keepdim=True only"
    )


def _power(node: Any, _: "re.Match") -> str:
    return f"it raises to the power {_argument(node, 'exponent')}, and XNNPACK takes only the whole number 2"


def _slice(node: Any) -> str:
    return f"it slices with step {_argument(node, 'step')}, and XNNPACK slices with step 1 only"


def _said(text: str) -> Callable:
    return lambda node, match: match.expand(text)


# The partitioner's words, and what they mean; the first that fits is used.
_SENTENCES: tuple[tuple[str, Callable], ...] = (
    (r"dim must be the last dim", _softmax),
    (r"only support concatenation of", _concatenation),
    (r"zero-padding in the averaging", _padded_average),
    (r"divisor override is not supported", _divisor),
    (r"ceil mode is not supported for dynamic shapes", _said("it rounds sizes up (ceil_mode=True) with sizes that are only known at run time")),
    (r"ceil mode is not supported", _said("it rounds the output size up (ceil_mode=True), which XNNPACK's average pooling does not support")),
    (r"stride \((?P<s>.*)\) must be less than or equal to kernel size \((?P<k>.*)\)", _said(r"its stride \g<s> is greater than its window \g<k>, which XNNPACK's max pooling does not support")),
    (r"dynamic output sizes are not supported", _said("its output size is only known at run time")),
    (r"Symbolic reshape is not supported", _said("it reshapes to sizes that are only known at run time")),
    (r"Only a single inferred dimension", _said("it reshapes with more than one dimension left to be inferred")),
    (r"GELU does not support fp16", _said("XNNPACK has no GELU for float16")),
    (r"dim-order preserving clones", _said("it changes the order of dimensions in memory, and XNNPACK copies only without a change of order")),
    (r"negative padding", _said("it crops with negative padding, which XNNPACK does not support")),
    (r"doesn't support alpha", _said("it scales its second operand (alpha is not 1), which XNNPACK does not support")),
    (r"unsqueeze_copy only supported on the trailing", _said("it adds a dimension that is not the last one, which XNNPACK does not support")),
    (r"Only support 1D \+ 2D Conv", _said("XNNPACK supports convolutions over one or two dimensions only")),
    (r"Expected weight to be a static param", _said("its weight is computed at run time, and XNNPACK needs a stored parameter as the weight")),
    (r"Expected bias to be a static param", _said("its bias is computed at run time, and XNNPACK needs a stored parameter as the bias")),
    (r"Prelu weight must be a parameter", _said("its weight is computed at run time, and XNNPACK needs a stored parameter")),
    (r"per input channel quantization", _said("XNNPACK does not support per-input-channel quantization of transposed convolutions with groups")),
    (r"Unsupported user of max\.dim", _said("the indices of the maximum are used, and XNNPACK gives only its values")),
    (r"BatchNorm cannot be decomposed or fused", _said("the batch normalisation can neither be merged into a convolution or linear layer before it nor be split into simpler operations")),
    (r"Unsupported input rank (?P<r>.+)", _said(r"its input has sizes \g<r>, and XNNPACK supports another number of dimensions here")),
    (r"mean\.dim only supports", _mean),
    (r"mean\.dim does not support dtype", _said("it takes the mean in another element type, which XNNPACK does not support")),
    (r"only support (int powers|power == 2)", _power),
    (r"(?P<io>input|output) tensor has invalid shape", _said(r"a size of its \g<io> is 0 or only known at run time, and XNNPACK slices only fixed sizes")),
    (r"dtype conversion from (?:torch\.)?(?P<a>\w+) to (?:torch\.)?(?P<b>\w+)", _said(r"it converts \g<a> to \g<b>, and XNNPACK's partitioner takes no conversions of element types")),
)  # fmt: skip


def _plain(node: Any, reason: str) -> Optional[str]:
    for pattern, sentence in _SENTENCES:
        match = re.search(pattern, reason)
        if match is not None:
            return sentence(node, match)
    return None


# ExecuTorch names the class in its messages to the user.
WatchedPartitioner.__name__ = XnnpackPartitioner.__name__
