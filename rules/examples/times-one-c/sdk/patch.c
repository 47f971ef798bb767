// Collects the edits of a rewrite and refuses the ones that cannot be meant.

#include <stdlib.h>
#include <string.h>

#include "answers.h"

typedef delegate_doctor_rules_edits_edit_t Edit;
typedef delegate_doctor_rules_edits_operand_t Operand;
typedef delegate_doctor_rules_edits_named_operand_t NamedOperand;

struct Patch {
    Edit *edits;
    size_t count;
    // for every new node, the highest of its outputs that is known
    uint32_t *outputs;
    size_t nodes;
};

struct NewNode {
    Patch *patch;
    const char *place;
    const char *op;
    NamedOperand *inputs;
    size_t count;
};

Patch *patch_new(void) {
    return calloc(1, sizeof(Patch));
}

static void push(Patch *patch, Edit edit) {
    patch->edits = grown(patch->edits, patch->count, sizeof edit);
    patch->edits[patch->count++] = edit;
}

static bool is_replaced(const Patch *patch, uint32_t value) {
    for (size_t i = 0; i < patch->count; i++) {
        if (patch->edits[i].tag == DELEGATE_DOCTOR_RULES_EDITS_EDIT_REPLACE_ALL_USES &&
            patch->edits[i].val.replace_all_uses.value == value) {
            return true;
        }
    }
    return false;
}

ValueRef patch_tap_at(Patch *patch, const char *place, Value value) {
    (void)patch;
    if (value == NULL) {
        fault(place, "there is no value to use");
        return (ValueRef){0};
    }
    return (ValueRef){.tag = DELEGATE_DOCTOR_RULES_EDITS_VALUE_REF_EXISTING, .val.existing = value->id};
}

NewNode *patch_node_at(Patch *patch, const char *place, const char *op) {
    NewNode *node = calloc(1, sizeof *node);
    *node = (NewNode){.patch = patch, .place = place, .op = op};
    return node;
}

ValueRef patch_add(NewNode *node) {
    Patch *patch = node->patch;
    Edit edit = {.tag = DELEGATE_DOCTOR_RULES_EDITS_EDIT_INSERT};
    edit.val.insert.op = text_to(node->op);
    edit.val.insert.inputs.ptr = node->inputs;
    edit.val.insert.inputs.len = node->count;
    push(patch, edit);
    patch->outputs = grown(patch->outputs, patch->nodes, sizeof *patch->outputs);
    patch->outputs[patch->nodes] = 0;
    return (ValueRef){
        .tag = DELEGATE_DOCTOR_RULES_EDITS_VALUE_REF_CREATED,
        .val.created = {.insertion = (uint32_t)patch->nodes++, .output = 0},
    };
}

ValueRef patch_output_at(Patch *patch, const char *place, ValueRef created, uint32_t output) {
    if (created.tag != DELEGATE_DOCTOR_RULES_EDITS_VALUE_REF_CREATED ||
        created.val.created.insertion >= patch->nodes) {
        fault(place, "the value is not made by this patch and has no other output here");
        return created;
    }
    uint32_t *most = &patch->outputs[created.val.created.insertion];
    *most = output > *most ? output : *most;
    created.val.created.output = output;
    return created;
}

void patch_replace_at(Patch *patch, const char *place, Value value, ValueRef by) {
    if (value == NULL) {
        fault(place, "there is no value to replace");
        return;
    }
    if (is_replaced(patch, value->id)) {
        fault(place, "value %u is replaced twice", (unsigned)value->id);
    }
    if (by.tag == DELEGATE_DOCTOR_RULES_EDITS_VALUE_REF_EXISTING && by.val.existing == value->id) {
        fault(place, "value %u is replaced by itself", (unsigned)value->id);
    }
    push(patch, (Edit){.tag = DELEGATE_DOCTOR_RULES_EDITS_EDIT_REPLACE_ALL_USES,
                       .val.replace_all_uses = {.value = value->id, .by = by}});
}

void patch_replace_use(Patch *patch, delegate_doctor_rules_graph_use_site_t use, ValueRef by) {
    push(patch, (Edit){.tag = DELEGATE_DOCTOR_RULES_EDITS_EDIT_REPLACE_USE,
                       .val.replace_use = {.use_site = use, .by = by}});
}

void patch_set_input_at(Patch *patch, const char *place, Node node, const char *name, ValueRef by) {
    bool has = false;
    for (size_t i = 0; node != NULL && i < node->inputs.len; i++) {
        has = has || text_is(node->inputs.ptr[i].name, name);
    }
    if (!has) {
        fault(place, "%s has no argument `%s`", node_op(node), name);
        return;
    }
    Edit edit = {.tag = DELEGATE_DOCTOR_RULES_EDITS_EDIT_SET_INPUT};
    edit.val.set_input.node = node->id;
    edit.val.set_input.input = text_to(name);
    edit.val.set_input.operand.tag = DELEGATE_DOCTOR_RULES_EDITS_OPERAND_VALUE;
    edit.val.set_input.operand.val.value = by;
    push(patch, edit);
}

void patch_delete_at(Patch *patch, const char *place, Node node) {
    if (node == NULL) {
        fault(place, "there is no node to delete");
        return;
    }
    for (size_t i = 0; i < node->outputs.len; i++) {
        uint32_t output = node->outputs.ptr[i];
        Value value = site_value(current_site, output);
        bool unused = value != NULL && value->use_count == 0;
        if (!unused && !is_replaced(patch, output)) {
            fault(place, "%s is deleted while its output %u is still used", node_op(node), (unsigned)output);
        }
    }
    push(patch, (Edit){.tag = DELEGATE_DOCTOR_RULES_EDITS_EDIT_DELETE, .val.delete_ = node->id});
}

ValueRef patch_fold(Patch *patch, ValueRef value) {
    push(patch, (Edit){.tag = DELEGATE_DOCTOR_RULES_EDITS_EDIT_FOLD, .val.fold = value});
    return value;
}

Verdict patch_finish(Patch *patch, Numerics numerics, const char *code, const char *why, ...) {
    if (is_settled()) {
        return settled();
    }
    if (patch->count == 0) {
        return fault("rule_sdk", "the rewrite holds no edit");
    }
    va_list arguments;
    va_start(arguments, why);
    const char *text = format_list(why, arguments);
    va_end(arguments);
    Verdict answer = {0};
    answer.verdict.tag = DELEGATE_DOCTOR_RULES_EDITS_VERDICT_REWRITE;
    delegate_doctor_rules_edits_rewrite_t *rewrite = &answer.verdict.val.rewrite;
    rewrite->edits.ptr = patch->edits;
    rewrite->edits.len = patch->count;
    rewrite->numerics = numerics;
    rewrite->why.code = text_to(code);
    rewrite->why.message = text_to(text);
    return answer;
}

// ---------------------------------------------------------------------------------------------------

static Operand *argument(NewNode *node, const char *name) {
    for (size_t i = 0; i < node->count; i++) {
        if (text_is(node->inputs[i].name, name)) {
            fault(node->place, "argument `%s` of %s is given twice", name, node->op);
        }
    }
    node->inputs = grown(node->inputs, node->count, sizeof *node->inputs);
    NamedOperand *input = &node->inputs[node->count++];
    *input = (NamedOperand){.name = text_to(name)};
    return &input->operand;
}

static void check(NewNode *node, const char *name, ValueRef value) {
    const Patch *patch = node->patch;
    if (value.tag == DELEGATE_DOCTOR_RULES_EDITS_VALUE_REF_CREATED &&
        (value.val.created.insertion >= patch->nodes ||
         value.val.created.output > patch->outputs[value.val.created.insertion])) {
        fault(node->place, "argument `%s` of %s is a value that this patch did not make", name, node->op);
    }
}

void arg_value(NewNode *node, const char *name, ValueRef value) {
    check(node, name, value);
    *argument(node, name) =
        (Operand){.tag = DELEGATE_DOCTOR_RULES_EDITS_OPERAND_VALUE, .val.value = value};
}

void arg_values(NewNode *node, const char *name, const ValueRef *values, size_t count) {
    ValueRef *copy = malloc(count * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        check(node, name, values[i]);
        copy[i] = values[i];
    }
    *argument(node, name) = (Operand){.tag = DELEGATE_DOCTOR_RULES_EDITS_OPERAND_VALUES,
                                      .val.values = {.ptr = copy, .len = count}};
}

#define LITERAL(kind, ...)                                              \
    *argument(node, name) = (Operand){                                  \
        .tag = DELEGATE_DOCTOR_RULES_EDITS_OPERAND_LITERAL,             \
        .val.literal = {.tag = DELEGATE_DOCTOR_RULES_GRAPH_LITERAL_##kind __VA_ARGS__}}

void arg_none(NewNode *node, const char *name) {
    LITERAL(NONE);
}

void arg_int(NewNode *node, const char *name, int64_t number) {
    LITERAL(INT, , .val.int_ = number);
}

void arg_ints(NewNode *node, const char *name, const int64_t *numbers, size_t count) {
    int64_t *copy = malloc(count * sizeof *copy);
    memcpy(copy, numbers, count * sizeof *copy);
    LITERAL(INTS, , .val.ints = {.ptr = copy, .len = count});
}

void arg_float(NewNode *node, const char *name, double number) {
    LITERAL(FLOAT, , .val.float_ = number);
}

void arg_bool(NewNode *node, const char *name, bool truth) {
    LITERAL(BOOLEAN, , .val.boolean = truth);
}

void arg_text(NewNode *node, const char *name, const char *text) {
    LITERAL(TEXT, , .val.text = text_to(text));
}

void arg_dtype(NewNode *node, const char *name, ScalarType dtype) {
    LITERAL(DTYPE, , .val.dtype = dtype);
}
