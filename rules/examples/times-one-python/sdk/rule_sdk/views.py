"""Typed views of a site: what an argument or a shape is, or a decline that says what it is not."""

from functools import cached_property
from typing import Optional

from wit_world.imports import graph

from .answers import Decline, Fault

ScalarType = graph.ScalarType

_KINDS = {
    graph.Literal_None_: "None",
    graph.Literal_Int: "an integer",
    graph.Literal_Ints: "a list of integers",
    graph.Literal_SymInt: "a size that varies",
    graph.Literal_SymInts: "a list with sizes that vary",
    graph.Literal_Float: "a number",
    graph.Literal_Floats: "a list of numbers",
    graph.Literal_Boolean: "a boolean",
    graph.Literal_Booleans: "a list of booleans",
    graph.Literal_Text: "a text",
    graph.Literal_Texts: "a list of texts",
    graph.Literal_Dtype: "an element type",
    graph.Literal_MemoryFormat: "a memory format",
    graph.Literal_Device: "a device",
    graph.Literal_Layout: "a layout",
    graph.Literal_Other: "something that the contract does not name",
}


class Site:
    """One place of a graph; `raw` is everything, as the contract has it."""

    def __init__(self, raw: graph.Site):
        self.raw = raw
        self.nodes = [Node(self, node) for node in raw.nodes]
        self._nodes = {node.id: node for node in self.nodes}
        self._values = {value.id: Value(self, value) for value in raw.values}

    @property
    def anchor(self) -> "Node":
        """The node that matched."""
        anchor = self.node(self.raw.anchor)
        if anchor is None:
            raise Fault(f"the site's anchor {self.raw.anchor} is not one of its nodes")
        return anchor

    def node(self, id: int) -> Optional["Node"]:
        """A node by id; None when the site does not show it."""
        return self._nodes.get(id)

    def value(self, id: int) -> Optional["Value"]:
        """A value by id."""
        return self._values.get(id)


class Node:
    """A node of a site."""

    def __init__(self, site: Site, raw: graph.Node):
        self.site = site
        self.raw = raw

    @property
    def id(self) -> int:
        return self.raw.id

    @property
    def op(self) -> str:
        """Full overload name, e.g. `aten.softmax.int`."""
        return self.raw.op

    @property
    def is_outside_delegate(self) -> bool:
        """The backend did not take it."""
        return self.raw.outside_delegate

    @property
    def output_count(self) -> int:
        return len(self.raw.outputs)

    def argument(self, name: str):
        """An argument as the contract has it; None when there is none."""
        return next((input.argument for input in self.raw.inputs if input.name == name), None)

    def _literal(self, name: str):
        argument = self.argument(name)
        return argument.value if isinstance(argument, graph.Argument_Literal) else None

    def _unreadable(self, name: str, wanted: str) -> Decline:
        argument = self.argument(name)
        if argument is None:
            found = "missing"
        elif isinstance(argument, graph.Argument_Literal):
            found = _KINDS.get(type(argument.value), "something else")
        else:
            found = "computed by the graph"
        return Decline("argument", f"argument `{name}` of {self.op} is not {wanted} but {found}")

    def _of(self, name: str, kind: type, words: str):
        literal = self._literal(name)
        if not isinstance(literal, kind):
            raise self._unreadable(name, words)
        return literal.value

    def is_none(self, name: str) -> bool:
        """True when the argument is absent or None."""
        return self.argument(name) is None or isinstance(self._literal(name), graph.Literal_None_)

    def int(self, name: str) -> int:
        """An integer; declines when the argument is something else."""
        literal = self._literal(name)
        if isinstance(literal, graph.Literal_Int):
            return literal.value
        if isinstance(literal, graph.Literal_SymInt) and isinstance(literal.value, graph.Dim_Fixed):
            return literal.value.value
        raise self._unreadable(name, "an integer")

    def ints(self, name: str) -> list[int]:
        """A list of known integers; a single one counts as a list."""
        literal = self._literal(name)
        if isinstance(literal, graph.Literal_Ints):
            return list(literal.value)
        if isinstance(literal, graph.Literal_SymInts) and all(isinstance(d, graph.Dim_Fixed) for d in literal.value):
            return [dim.value for dim in literal.value]
        if isinstance(literal, (graph.Literal_Int, graph.Literal_SymInt)):
            return [self.int(name)]
        raise self._unreadable(name, "a list of known integers")

    def float(self, name: str) -> float:
        """A number; integers count."""
        return float(self._of(name, (graph.Literal_Float, graph.Literal_Int), "a number"))

    def floats(self, name: str) -> list[float]:
        """A list of numbers; a single one counts as a list."""
        literal = self._literal(name)
        return list(literal.value) if isinstance(literal, graph.Literal_Floats) else [self.float(name)]

    def boolean(self, name: str) -> bool:
        return self._of(name, graph.Literal_Boolean, "a boolean")

    def text(self, name: str) -> str:
        return self._of(name, graph.Literal_Text, "a text")

    def dtype(self, name: str) -> ScalarType:
        return self._of(name, graph.Literal_Dtype, "an element type")

    def tensor(self, name: str) -> "Value":
        """An argument that is one value of the graph."""
        argument = self.argument(name)
        if not isinstance(argument, graph.Argument_Value):
            raise self._unreadable(name, "a value of the graph")
        return self._known(argument.value)

    def tensors(self, name: str) -> list["Value"]:
        """An argument that is a list of values."""
        argument = self.argument(name)
        if not isinstance(argument, graph.Argument_Values):
            raise self._unreadable(name, "a list of values of the graph")
        return [self._known(id) for id in argument.value]

    def output(self, index: int) -> "Value":
        """One of the tensors that the node returns."""
        if not 0 <= index < len(self.raw.outputs):
            raise Decline("argument", f"{self.op} has no output {index}")
        return self._known(self.raw.outputs[index])

    def _known(self, id: int) -> "Value":
        value = self.site.value(id)
        if value is None:
            raise Fault(f"{self.op} mentions value {id}, which the site lacks")
        return value


class Value:
    """A value that a node of the site takes or returns."""

    def __init__(self, site: Site, raw: graph.Value):
        self.site = site
        self.raw = raw
        self.id = raw.id
        #: How often the whole graph uses it, graph outputs included.
        self.use_count = raw.use_count
        #: The program returns it.
        self.is_graph_output = raw.is_graph_output
        #: Something writes to its memory, at any time of the run.
        self.is_mutated = raw.is_mutated
        #: Another value of the graph may share its memory.
        self.is_aliased = raw.is_aliased
        #: It depends on constants only.
        self.is_constant = raw.is_constant

    @property
    def is_graph_input(self) -> bool:
        """The caller, the state or a constant gives it: no node returns it."""
        return not isinstance(self.raw.source, graph.ValueSource_Node)

    @property
    def producer(self) -> Optional[Node]:
        """The node that returns it; None when the site does not show it."""
        return None if self.is_graph_input else self.site.node(self.raw.source.value)

    @property
    def tensor(self) -> "Tensor":
        """What is known about it as a tensor; declines when it is none."""
        if self.raw.meta is None:
            raise Decline("not-a-tensor", f"value {self.id} is not a tensor")
        return Tensor(self.raw.meta)


class Tensor:
    """A value that is known to be a tensor."""

    def __init__(self, raw: graph.TensorMeta):
        self.raw = raw

    @property
    def dtype(self) -> ScalarType:
        return self.raw.dtype

    @property
    def rank(self) -> int:
        return len(self.raw.sizes)

    def size(self, dim: int) -> Optional[int]:
        """One size; None when it varies or the dimension is not there."""
        known = 0 <= dim < self.rank and isinstance(self.raw.sizes[dim], graph.Dim_Fixed)
        return self.raw.sizes[dim].value if known else None

    @cached_property
    def sizes(self) -> list[int]:
        """All sizes; declines when one varies from run to run."""
        for dim, size in enumerate(self.raw.sizes):
            if not isinstance(size, graph.Dim_Fixed):
                raise Decline("dynamic-shape", f"size {dim} of a tensor varies")
        return [size.value for size in self.raw.sizes]

    def dimension(self, dim: int) -> Optional[int]:
        """`dim` counted from the front; None when it is out of range."""
        front = dim + self.rank if dim < 0 else dim
        return front if 0 <= front < self.rank else None

    def same_sizes(self, other: "Tensor") -> bool:
        """The same sizes, element type and device; varying sizes by their text."""

        def key(raw: graph.TensorMeta):
            text = [d.value if isinstance(d, graph.Dim_Fixed) else d.value.expression for d in raw.sizes]
            return raw.dtype, raw.device, text

        return key(self.raw) == key(other.raw)

    @property
    def is_contiguous(self) -> bool:
        """Row-major without gaps."""
        expected: Optional[int] = 1
        for dim in reversed(range(self.rank)):
            size = self.size(dim)
            if size != 1 and (expected is None or self.raw.strides[dim] != graph.Dim_Fixed(expected)):
                return False
            expected = None if size is None or expected is None else expected * size
        return True
