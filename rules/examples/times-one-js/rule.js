// Times one js
//
// Say here what the rule finds, why it costs time, and what it puts in its place.

import { anchor, define, exact, require } from "./sdk/rule_sdk.js";

export const rule = define({
    id: "times-one-js",
    version: "0.1.0",
    title: "Times one js",
    summary: "Takes out multiplications by one.",
    backends: ["xnnpack"],
    anchors: [anchor("aten.mul.Scalar")],
    codes: {
        "times-one": "the factor is one, so the multiplication changes nothing",
        "factor": "the factor is not one",
        "written-to": "the result or what it is made of is written to later",
        "changes-type": "the multiplication also converts the element type",
    },

    examine(site) {
        const mul = site.anchor;
        const factor = mul.float("other");
        require(factor === 1, "factor", `the factor is ${factor}`);
        const input = mul.tensor("self");
        const output = mul.output(0);
        require(!input.isMutated && !output.isMutated, "written-to", "the result is written to");
        require(input.tensor.dtype === output.tensor.dtype, "changes-type", "the element type changes");

        const patch = site.patch();
        patch.replace(output, patch.tap(input));
        patch.delete(mul);
        return patch.finish(exact, "times-one", "multiplication by one");
    },
});
