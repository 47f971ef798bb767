"""What the author of a repair rule in Python depends on.

A rule is a module `rule` with a `MANIFEST` and a function `examine(site)`, which answers for one place of a
graph. Views decline by themselves when an argument is not what was asked for; whatever else is raised becomes
the rule's complaint about itself, with the line.
"""

from .answers import Decline, Fault, decline, require
from .manifest import Anchor, Corrective, Exact, Manifest, Numerics, Tolerant
from .patch import Patch, Ref, Rewrite
from .views import Node, ScalarType, Site, Tensor, Value

__all__ = [
    "Anchor",
    "Corrective",
    "Decline",
    "Exact",
    "Fault",
    "Manifest",
    "Node",
    "Numerics",
    "Patch",
    "Ref",
    "Rewrite",
    "ScalarType",
    "Site",
    "Tensor",
    "Tolerant",
    "Value",
    "decline",
    "require",
]
