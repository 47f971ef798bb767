// Times one c
//
// Say here what the rule finds, why it costs time, and what it puts in its place.

#include "sdk/rule_sdk.h"

void describe(Manifest *manifest) {
    manifest_name(manifest, "times-one-c", "0.1.0", "Times one c");
    manifest_summary(manifest, "Takes out multiplications by one.");
    manifest_backend(manifest, "xnnpack");
    manifest_anchor(manifest, "aten.mul.Scalar");
    manifest_code(manifest, "times-one", "the factor is one, so the multiplication changes nothing");
    manifest_code(manifest, "factor", "the factor is not one");
    manifest_code(manifest, "written-to", "the result or what it is made of is written to later");
    manifest_code(manifest, "changes-type", "the multiplication also converts the element type");
}

Verdict examine(Site site) {
    Node mul = site_anchor(site);
    double factor = TRY(node_float(mul, "other"));
    REQUIRE(factor == 1.0, "factor", "the factor is %g", factor);
    Value input = TRY(node_tensor(mul, "self"));
    Value output = TRY(node_output(mul, 0));
    REQUIRE(!input->is_mutated && !output->is_mutated, "written-to", "the result is written to");
    Tensor x = TRY(value_tensor(input));
    Tensor y = TRY(value_tensor(output));
    REQUIRE(x->dtype == y->dtype, "changes-type", "the element type changes");

    Patch *patch = patch_new();
    patch_replace(patch, output, patch_tap(patch, input));
    patch_delete(patch, mul);
    return patch_finish(patch, exact(), "times-one", "multiplication by one");
}
