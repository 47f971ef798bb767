"""What a rule says about itself."""

from dataclasses import dataclass, field
from typing import Union

from wit_world.exports import rule as contract
from wit_world.imports import edits

# Codes that the views decline with; they join every manifest.
STANDARD_CODES = {
    "argument": "an argument has a form that the rule does not read",
    "not-a-tensor": "a value that should be a tensor is something else",
    "dynamic-shape": "a size that must be known varies from run to run",
    "cut-short": "the surroundings that the rule needs lie outside the site",
}


@dataclass(frozen=True)
class Exact:
    """The same bits for every input."""


@dataclass(frozen=True)
class Tolerant:
    """The same up to rounding, relative to the scale of the output."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Corrective:
    """Repairs a lowering that computes something else."""

    rtol: float
    atol: float


Numerics = Union[Exact, Tolerant, Corrective]


def raw_numerics(numerics: Numerics):
    """The claim as the contract has it."""
    if isinstance(numerics, Tolerant):
        return edits.Numerics_Tolerant(edits.Tolerance(numerics.rtol, numerics.atol))
    if isinstance(numerics, Corrective):
        return edits.Numerics_Corrective(edits.Tolerance(numerics.rtol, numerics.atol))
    return edits.Numerics_Exact()


@dataclass(frozen=True)
class Anchor:
    """Nodes of these ops. `fed_by` maps an argument to the ops that must return it."""

    ops: list[str]
    fed_by: dict[str, list[str]] = field(default_factory=dict)
    producers: int = 0
    consumers: int = 0
    only_outside_delegate: bool = False

    def raw(self) -> contract.Anchor:
        return contract.Anchor(
            ops=list(self.ops),
            producers=[contract.ProducerConstraint(input, list(ops)) for input, ops in self.fed_by.items()],
            producer_depth=self.producers,
            consumer_depth=self.consumers,
            only_outside_delegate=self.only_outside_delegate,
        )


@dataclass(frozen=True)
class Manifest:
    """What the rule is and what it wants to see."""

    id: str
    version: str
    title: str
    summary: str = ""
    preview: bool = False
    numerics: Numerics = Exact()
    backends: list[str] = field(default_factory=list)
    anchors: list[Anchor] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)

    def raw(self) -> contract.Manifest:
        codes = {**STANDARD_CODES, **self.codes}
        return contract.Manifest(
            id=self.id,
            version=self.version,
            title=self.title,
            summary=self.summary,
            stability=contract.Stability.PREVIEW if self.preview else contract.Stability.STABLE,
            numerics=raw_numerics(self.numerics),
            backends=list(self.backends),
            anchors=[anchor.raw() for anchor in self.anchors],
            codes=[contract.ReasonCode(code, summary) for code, summary in codes.items()],
            hints=[],
        )
