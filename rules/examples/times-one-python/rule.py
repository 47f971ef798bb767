"""Times one python

Say here what the rule finds, why it costs time, and what it puts in its place.
"""

from rule_sdk import Anchor, Exact, Manifest, Patch, Rewrite, Site, require

MANIFEST = Manifest(
    id="times-one-python",
    version="0.1.0",
    title="Times one python",
    summary="Takes out multiplications by one.",
    backends=["xnnpack"],
    anchors=[Anchor(["aten.mul.Scalar"])],
    codes={
        "times-one": "the factor is one, so the multiplication changes nothing",
        "factor": "the factor is not one",
        "written-to": "the result or what it is made of is written to later",
        "changes-type": "the multiplication also converts the element type",
    },
)


def examine(site: Site) -> Rewrite:
    mul = site.anchor
    factor = mul.float("other")
    require(factor == 1.0, "factor", f"the factor is {factor}")
    input, output = mul.tensor("self"), mul.output(0)
    require(not (input.is_mutated or output.is_mutated), "written-to", "the result is written to")
    require(input.tensor.dtype == output.tensor.dtype, "changes-type", "the element type changes")

    patch = Patch(site)
    patch.replace(output, patch.tap(input))
    patch.delete(mul)
    return patch.finish(Exact(), "times-one", "multiplication by one")
