// Answers, manifests, and the two functions that the host calls.

#include <stdlib.h>
#include <string.h>

#include "answers.h"

Site current_site;

static bool has_settled;
static Verdict first_answer;

// Every function of the contract is called in an instance of its own, so these begin empty.

void *grown(void *list, size_t length, size_t element) {
    // A power of two of elements, so that the list is moved rarely.
    if ((length & (length - 1)) == 0) {
        return realloc(list, (length == 0 ? 1 : 2 * length) * element);
    }
    return list;
}

void settle(Verdict answer) {
    if (!has_settled) {
        has_settled = true;
        first_answer = answer;
    }
}

bool is_settled(void) {
    return has_settled;
}

Verdict settled(void) {
    return first_answer;
}

static Verdict declined(const char *code, const char *message) {
    Verdict answer = {0};
    answer.verdict.tag = DELEGATE_DOCTOR_RULES_EDITS_VERDICT_DECLINE;
    answer.verdict.val.decline.code = text_to(code);
    answer.verdict.val.decline.message = text_to(message);
    settle(answer);
    return settled();
}

Verdict decline(const char *code, const char *message, ...) {
    va_list arguments;
    va_start(arguments, message);
    const char *text = format_list(message, arguments);
    va_end(arguments);
    return declined(code, text);
}

Verdict fault(const char *place, const char *message, ...) {
    va_list arguments;
    va_start(arguments, message);
    const char *text = format_list(message, arguments);
    va_end(arguments);
    settle((Verdict){.is_fault = true, .message = format("%s: %s", place, text)});
    return settled();
}

// ---------------------------------------------------------------------------------------------------

#define APPEND(list, type, ...)                                                      \
    do {                                                                             \
        (list)->ptr = grown((list)->ptr, (list)->len, sizeof(type));                 \
        (list)->ptr[(list)->len++] = (type)__VA_ARGS__;                              \
    } while (0)

void manifest_name(Manifest *manifest, const char *id, const char *version, const char *title) {
    manifest->id = text_to(id);
    manifest->version = text_to(version);
    manifest->title = text_to(title);
}

void manifest_summary(Manifest *manifest, const char *summary) {
    manifest->summary = text_to(summary);
}

void manifest_numerics(Manifest *manifest, Numerics numerics) {
    manifest->numerics = numerics;
}

void manifest_preview(Manifest *manifest) {
    manifest->stability = EXPORTS_DELEGATE_DOCTOR_RULES_RULE_STABILITY_PREVIEW;
}

void manifest_backend(Manifest *manifest, const char *backend) {
    APPEND(&manifest->backends, repair_rule_string_t, text_to(backend));
}

void manifest_code(Manifest *manifest, const char *code, const char *summary) {
    APPEND(&manifest->codes, exports_delegate_doctor_rules_rule_reason_code_t, {text_to(code), text_to(summary)});
}

Anchor *manifest_anchor(Manifest *manifest, const char *op) {
    APPEND(&manifest->anchors, Anchor, {0});
    Anchor *anchor = &manifest->anchors.ptr[manifest->anchors.len - 1];
    anchor_op(anchor, op);
    return anchor;
}

void anchor_op(Anchor *anchor, const char *op) {
    APPEND(&anchor->ops, repair_rule_string_t, text_to(op));
}

void anchor_surroundings(Anchor *anchor, uint8_t producers, uint8_t consumers) {
    anchor->producer_depth = producers;
    anchor->consumer_depth = consumers;
}

void anchor_fed_by(Anchor *anchor, const char *input, const char *const *ops) {
    APPEND(&anchor->producers, exports_delegate_doctor_rules_rule_producer_constraint_t, {text_to(input), {0}});
    exports_delegate_doctor_rules_rule_producer_constraint_t *one =
        &anchor->producers.ptr[anchor->producers.len - 1];
    for (; *ops != NULL; ops++) {
        APPEND(&one->ops, repair_rule_string_t, text_to(*ops));
    }
}

void anchor_outside_delegate(Anchor *anchor) {
    anchor->only_outside_delegate = true;
}

Numerics exact(void) {
    return (Numerics){.tag = DELEGATE_DOCTOR_RULES_EDITS_NUMERICS_EXACT};
}

Numerics tolerant(double rtol, double atol) {
    return (Numerics){.tag = DELEGATE_DOCTOR_RULES_EDITS_NUMERICS_TOLERANT, .val.tolerant = {rtol, atol}};
}

Numerics corrective(double rtol, double atol) {
    return (Numerics){.tag = DELEGATE_DOCTOR_RULES_EDITS_NUMERICS_CORRECTIVE, .val.corrective = {rtol, atol}};
}

// ---------------------------------------------------------------------------------------------------

// Codes that the SDK's views decline with; they join every manifest.
static const char *const STANDARD_CODES[][2] = {
    {"argument", "an argument has a form that the rule does not read"},
    {"not-a-tensor", "a value that should be a tensor is something else"},
    {"dynamic-shape", "a size that must be known varies from run to run"},
    {"cut-short", "the surroundings that the rule needs lie outside the site"},
};

void exports_delegate_doctor_rules_rule_describe(Manifest *manifest) {
    *manifest = (Manifest){
        .stability = EXPORTS_DELEGATE_DOCTOR_RULES_RULE_STABILITY_STABLE,
        .numerics = exact(),
    };
    describe(manifest);
    for (size_t i = 0; i < sizeof STANDARD_CODES / sizeof *STANDARD_CODES; i++) {
        bool known = false;
        for (size_t k = 0; k < manifest->codes.len; k++) {
            known = known || text_is(manifest->codes.ptr[k].code, STANDARD_CODES[i][0]);
        }
        if (!known) {
            manifest_code(manifest, STANDARD_CODES[i][0], STANDARD_CODES[i][1]);
        }
    }
}

bool exports_delegate_doctor_rules_rule_examine(exports_delegate_doctor_rules_rule_site_t *site,
                                                exports_delegate_doctor_rules_rule_verdict_t *verdict,
                                                repair_rule_string_t *error) {
    current_site = site;
    Verdict answer = examine(site);
    // A reason that the rule did not look at is still the answer.
    if (is_settled()) {
        answer = settled();
    }
    if (answer.is_fault) {
        *error = text_to(answer.message);
        return false;
    }
    *verdict = answer.verdict;
    return true;
}
