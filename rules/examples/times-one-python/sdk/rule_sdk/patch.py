"""Collects the edits of a rewrite and refuses the ones that cannot be meant."""

from dataclasses import dataclass
from typing import Sequence, Union

from wit_world.imports import edits, graph

from .answers import Fault
from .manifest import Numerics, raw_numerics
from .views import Node, ScalarType, Site, Value


@dataclass(frozen=True)
class Ref:
    """A value of the site, or one that a patch makes."""

    patch: "Patch"
    raw: Union[edits.ValueRef_Existing, edits.ValueRef_Created]


@dataclass(frozen=True)
class Rewrite:
    """What a rule proposes; made by `Patch.finish`."""

    raw: edits.Rewrite


Operand = Union[Ref, None, bool, int, float, str, ScalarType, Sequence]


class Patch:
    """The edits of one rewrite. New nodes are placed before the anchor in the order they are made."""

    def __init__(self, site: Site):
        self._site = site
        self._edits: list = []
        self._replaced: set[int] = set()
        self._nodes = 0

    def __repr__(self) -> str:
        return f"<patch with {len(self._edits)} edits>"

    def tap(self, value: Value) -> Ref:
        """A value of the site, to be used by new nodes."""
        if self._site.value(value.id) is not value:
            raise Fault("the value is not one of this site")
        return Ref(self, edits.ValueRef_Existing(value.id))

    def node(self, op: str, **inputs: Operand) -> Ref:
        """A new node, and its first output: `patch.node("aten.reshape.default", self=x, shape=[2, -1])`.

        Arguments that are left out take the schema's default.
        """
        named = [edits.NamedOperand(name, self._operand(op, name, given)) for name, given in inputs.items()]
        self._edits.append(edits.Edit_Insert(edits.NewNode(op, named, [])))
        self._nodes += 1
        return Ref(self, edits.ValueRef_Created(edits.CreatedRef(self._nodes - 1, 0)))

    def output(self, created: Ref, output: int) -> Ref:
        """Another output of the node that `created` belongs to."""
        raw = self._own(created)
        if not isinstance(raw, edits.ValueRef_Created):
            raise Fault("the value is not made by this patch and has no other output here")
        return Ref(self, edits.ValueRef_Created(edits.CreatedRef(raw.value.insertion, output)))

    def replace(self, value: Value, by: Ref) -> None:
        """Every use of `value`, also as an output of the program, becomes a use of `by`."""
        raw = self._own(by)
        if value.id in self._replaced:
            raise Fault(f"value {value.id} is replaced twice")
        if raw == edits.ValueRef_Existing(value.id):
            raise Fault(f"value {value.id} is replaced by itself")
        self._replaced.add(value.id)
        self._edits.append(edits.Edit_ReplaceAllUses(edits.Replacement(value.id, raw)))

    def replace_use(self, use_site: graph.UseSite, by: Ref) -> None:
        """One use, an entry of `site.raw.uses`, becomes a use of `by`."""
        self._edits.append(edits.Edit_ReplaceUse(edits.UseReplacement(use_site, self._own(by))))

    def set_input(self, node: Node, input: str, given: Operand) -> None:
        """One argument of a node of the site becomes something else."""
        if node.argument(input) is None:
            raise Fault(f"{node.op} has no argument `{input}`")
        operand = self._operand(node.op, input, given)
        self._edits.append(edits.Edit_SetInput(edits.InputChange(node.id, input, operand)))

    def delete(self, node: Node) -> None:
        """Removes a node whose outputs were replaced or never used."""
        for id in node.raw.outputs:
            value = self._site.value(id)
            unused = value is not None and value.use_count == 0
            if not unused and id not in self._replaced:
                raise Fault(f"{node.op} is deleted while its output {id} is still used")
        self._edits.append(edits.Edit_Delete(node.id))

    def fold(self, value: Ref) -> Ref:
        """Has the host compute a value that depends on constants only, once, and store it."""
        raw = self._own(value)
        if isinstance(raw, edits.ValueRef_Existing):
            known = self._site.value(raw.value)
            if known is None or not known.is_constant:
                raise Fault(f"value {raw.value} is folded but does not depend on constants only")
        self._edits.append(edits.Edit_Fold(raw))
        return value

    def finish(self, numerics: Numerics, code: str, why: str) -> Rewrite:
        """The rewrite, with its claim and the reason it is proposed for."""
        if not self._edits:
            raise Fault("the rewrite holds no edit")
        return Rewrite(edits.Rewrite(self._edits, raw_numerics(numerics), edits.Reason(code, why), []))

    def _own(self, ref: Ref):
        if not isinstance(ref, Ref) or ref.patch is not self:
            raise Fault("that is no value of this patch; `tap` makes one of a value of the site")
        return ref.raw

    def _operand(self, op: str, name: str, given: Operand):
        if isinstance(given, Ref):
            return edits.Operand_Value(self._own(given))
        if isinstance(given, (list, tuple)) and given and all(isinstance(one, Ref) for one in given):
            return edits.Operand_Values([self._own(one) for one in given])
        return edits.Operand_Literal(_literal(op, name, given))


def _literal(op: str, name: str, given: Operand):
    if given is None:
        return graph.Literal_None_()
    # A boolean is an integer to Python.
    if isinstance(given, bool):
        return graph.Literal_Boolean(given)
    if isinstance(given, int):
        return graph.Literal_Int(given)
    if isinstance(given, float):
        return graph.Literal_Float(given)
    if isinstance(given, str):
        return graph.Literal_Text(given)
    if isinstance(given, ScalarType):
        return graph.Literal_Dtype(given)
    if isinstance(given, graph.MemoryFormat):
        return graph.Literal_MemoryFormat(given)
    if isinstance(given, (list, tuple)):
        if all(isinstance(one, bool) for one in given) and given:
            return graph.Literal_Booleans(list(given))
        if all(isinstance(one, int) for one in given):
            return graph.Literal_Ints(list(given))
        if all(isinstance(one, float) for one in given):
            return graph.Literal_Floats(list(given))
    raise Fault(f"argument `{name}` of {op} cannot be {given!r}")
