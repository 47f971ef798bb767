// Typed views of a site: what an argument or a shape is, or a decline that says what it is not.

#include <stdlib.h>
#include <string.h>

#include "answers.h"

typedef delegate_doctor_rules_graph_argument_t Argument;
typedef delegate_doctor_rules_graph_literal_t Literal;
typedef delegate_doctor_rules_graph_dim_t Dim;

#define IS_LITERAL(argument, kind)                                      \
    ((argument) != NULL && (argument)->tag == DELEGATE_DOCTOR_RULES_GRAPH_ARGUMENT_LITERAL && \
     (argument)->val.literal.tag == DELEGATE_DOCTOR_RULES_GRAPH_LITERAL_##kind)

Node site_node(Site site, uint32_t id) {
    for (size_t i = 0; site != NULL && i < site->nodes.len; i++) {
        if (site->nodes.ptr[i].id == id) {
            return &site->nodes.ptr[i];
        }
    }
    return NULL;
}

Value site_value(Site site, uint32_t id) {
    for (size_t i = 0; site != NULL && i < site->values.len; i++) {
        if (site->values.ptr[i].id == id) {
            return &site->values.ptr[i];
        }
    }
    return NULL;
}

Node site_anchor(Site site) {
    Node anchor = site_node(site, site == NULL ? 0 : site->anchor);
    if (anchor == NULL) {
        fault("rule_sdk", "the site's anchor is not one of its nodes");
    }
    return anchor;
}

// ---------------------------------------------------------------------------------------------------

const char *node_op(Node node) {
    return node == NULL ? "" : text_of(node->op);
}

bool node_is(Node node, const char *op) {
    return node != NULL && text_is(node->op, op);
}

static const Argument *argument_of(Node node, const char *name) {
    for (size_t i = 0; node != NULL && i < node->inputs.len; i++) {
        if (text_is(node->inputs.ptr[i].name, name)) {
            return &node->inputs.ptr[i].argument;
        }
    }
    return NULL;
}

static const char *const KINDS[] = {
    "None", "an integer", "a list of integers", "a size that varies", "a list with sizes that vary", "a number",
    "a list of numbers", "a boolean", "a list of booleans", "a text", "a list of texts", "an element type",
    "a memory format", "a device", "a layout", "something that the contract does not name",
};

static void unreadable(Node node, const char *name, const char *wanted) {
    const Argument *argument = argument_of(node, name);
    const char *found = "computed by the graph";
    if (argument == NULL) {
        found = "missing";
    } else if (argument->tag == DELEGATE_DOCTOR_RULES_GRAPH_ARGUMENT_LITERAL &&
               argument->val.literal.tag < sizeof KINDS / sizeof *KINDS) {
        found = KINDS[argument->val.literal.tag];
    }
    decline("argument", "argument `%s` of %s is not %s but %s", name, node_op(node), wanted, found);
}

bool node_is_none(Node node, const char *name) {
    const Argument *argument = argument_of(node, name);
    return argument == NULL || IS_LITERAL(argument, NONE);
}

static bool known_int(const Argument *argument, int64_t *number) {
    if (IS_LITERAL(argument, INT)) {
        *number = argument->val.literal.val.int_;
        return true;
    }
    if (IS_LITERAL(argument, SYM_INT) &&
        argument->val.literal.val.sym_int.tag == DELEGATE_DOCTOR_RULES_GRAPH_DIM_FIXED) {
        *number = argument->val.literal.val.sym_int.val.fixed;
        return true;
    }
    return false;
}

int64_t node_int(Node node, const char *name) {
    int64_t number = 0;
    if (!known_int(argument_of(node, name), &number)) {
        unreadable(node, name, "an integer");
    }
    return number;
}

static bool known_dims(const delegate_doctor_rules_graph_list_dim_t *dims, Ints *ints, size_t *varies) {
    int64_t *list = malloc(dims->len * sizeof *list);
    for (size_t i = 0; i < dims->len; i++) {
        if (dims->ptr[i].tag != DELEGATE_DOCTOR_RULES_GRAPH_DIM_FIXED) {
            *varies = i;
            return false;
        }
        list[i] = dims->ptr[i].val.fixed;
    }
    *ints = (Ints){list, dims->len};
    return true;
}

Ints node_ints(Node node, const char *name) {
    const Argument *argument = argument_of(node, name);
    if (IS_LITERAL(argument, INTS)) {
        return (Ints){argument->val.literal.val.ints.ptr, argument->val.literal.val.ints.len};
    }
    Ints ints = {0};
    size_t varies = 0;
    if (IS_LITERAL(argument, SYM_INTS)) {
        if (!known_dims(&argument->val.literal.val.sym_ints, &ints, &varies)) {
            unreadable(node, name, "a list of known integers");
        }
        return ints;
    }
    int64_t *one = malloc(sizeof *one);
    if (!known_int(argument, one)) {
        unreadable(node, name, "a list of integers");
        return ints;
    }
    return (Ints){one, 1};
}

static bool known_float(const Argument *argument, double *number) {
    if (IS_LITERAL(argument, FLOAT)) {
        *number = argument->val.literal.val.float_;
        return true;
    }
    if (IS_LITERAL(argument, INT)) {
        *number = (double)argument->val.literal.val.int_;
        return true;
    }
    return false;
}

double node_float(Node node, const char *name) {
    double number = 0;
    if (!known_float(argument_of(node, name), &number)) {
        unreadable(node, name, "a number");
    }
    return number;
}

Floats node_floats(Node node, const char *name) {
    const Argument *argument = argument_of(node, name);
    if (IS_LITERAL(argument, FLOATS)) {
        return (Floats){argument->val.literal.val.floats.ptr, argument->val.literal.val.floats.len};
    }
    double *one = malloc(sizeof *one);
    if (!known_float(argument, one)) {
        unreadable(node, name, "a list of numbers");
        return (Floats){0};
    }
    return (Floats){one, 1};
}

bool node_bool(Node node, const char *name) {
    const Argument *argument = argument_of(node, name);
    if (!IS_LITERAL(argument, BOOLEAN)) {
        unreadable(node, name, "a boolean");
        return false;
    }
    return argument->val.literal.val.boolean;
}

const char *node_text(Node node, const char *name) {
    const Argument *argument = argument_of(node, name);
    if (!IS_LITERAL(argument, TEXT)) {
        unreadable(node, name, "a text");
        return "";
    }
    return text_of(argument->val.literal.val.text);
}

ScalarType node_dtype(Node node, const char *name) {
    const Argument *argument = argument_of(node, name);
    if (!IS_LITERAL(argument, DTYPE)) {
        unreadable(node, name, "an element type");
        return DELEGATE_DOCTOR_RULES_GRAPH_SCALAR_TYPE_OTHER;
    }
    return argument->val.literal.val.dtype;
}

static Value known_value(Node node, uint32_t id) {
    Value value = site_value(current_site, id);
    if (value == NULL) {
        fault("rule_sdk", "%s mentions value %u, which the site lacks", node_op(node), (unsigned)id);
    }
    return value;
}

Value node_tensor(Node node, const char *name) {
    const Argument *argument = argument_of(node, name);
    if (argument == NULL || argument->tag != DELEGATE_DOCTOR_RULES_GRAPH_ARGUMENT_VALUE) {
        unreadable(node, name, "a value of the graph");
        return NULL;
    }
    return known_value(node, argument->val.value);
}

Values node_tensors(Node node, const char *name) {
    const Argument *argument = argument_of(node, name);
    if (argument == NULL || argument->tag != DELEGATE_DOCTOR_RULES_GRAPH_ARGUMENT_VALUES) {
        unreadable(node, name, "a list of values of the graph");
        return (Values){0};
    }
    size_t count = argument->val.values.len;
    Value *list = malloc(count * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i] = known_value(node, argument->val.values.ptr[i]);
    }
    return (Values){list, count};
}

Value node_output(Node node, size_t index) {
    if (index >= node_output_count(node)) {
        decline("argument", "%s has no output %zu", node_op(node), index);
        return NULL;
    }
    return known_value(node, node->outputs.ptr[index]);
}

size_t node_output_count(Node node) {
    return node == NULL ? 0 : node->outputs.len;
}

// ---------------------------------------------------------------------------------------------------

Node value_producer(Value value) {
    if (value == NULL || value_is_graph_input(value)) {
        return NULL;
    }
    return site_node(current_site, value->source.val.node);
}

bool value_is_graph_input(Value value) {
    return value != NULL && value->source.tag != DELEGATE_DOCTOR_RULES_GRAPH_VALUE_SOURCE_NODE;
}

Tensor value_tensor(Value value) {
    if (value == NULL || !value->meta.is_some) {
        decline("not-a-tensor", "value %u is not a tensor", value == NULL ? 0 : (unsigned)value->id);
        return NULL;
    }
    return &value->meta.val;
}

size_t tensor_rank(Tensor tensor) {
    return tensor == NULL ? 0 : tensor->sizes.len;
}

int64_t tensor_size(Tensor tensor, size_t dim) {
    if (dim >= tensor_rank(tensor) || tensor->sizes.ptr[dim].tag != DELEGATE_DOCTOR_RULES_GRAPH_DIM_FIXED) {
        return -1;
    }
    return tensor->sizes.ptr[dim].val.fixed;
}

Ints tensor_sizes(Tensor tensor) {
    Ints sizes = {0};
    size_t varies = 0;
    if (tensor != NULL && !known_dims(&tensor->sizes, &sizes, &varies)) {
        decline("dynamic-shape", "size %zu of a tensor varies", varies);
    }
    return sizes;
}

int64_t tensor_dimension(Tensor tensor, int64_t dim) {
    int64_t rank = (int64_t)tensor_rank(tensor);
    int64_t front = dim < 0 ? dim + rank : dim;
    return front >= 0 && front < rank ? front : -1;
}

static bool same_text(repair_rule_string_t a, repair_rule_string_t b) {
    return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

static bool same_dim(const Dim *a, const Dim *b) {
    if (a->tag != b->tag) {
        return false;
    }
    return a->tag == DELEGATE_DOCTOR_RULES_GRAPH_DIM_FIXED
               ? a->val.fixed == b->val.fixed
               : same_text(a->val.symbolic.expression, b->val.symbolic.expression);
}

bool tensor_same_sizes(Tensor a, Tensor b) {
    if (a == NULL || b == NULL || a->sizes.len != b->sizes.len || a->dtype != b->dtype ||
        !same_text(a->device, b->device)) {
        return false;
    }
    for (size_t i = 0; i < a->sizes.len; i++) {
        if (!same_dim(&a->sizes.ptr[i], &b->sizes.ptr[i])) {
            return false;
        }
    }
    return true;
}

bool tensor_is_contiguous(Tensor tensor) {
    if (tensor == NULL || tensor->strides.len != tensor->sizes.len) {
        return false;
    }
    int64_t expected = 1;
    bool known = true;
    for (size_t i = tensor->sizes.len; i > 0; i--) {
        int64_t size = tensor_size(tensor, i - 1);
        const Dim *stride = &tensor->strides.ptr[i - 1];
        if (size != 1 && (!known || stride->tag != DELEGATE_DOCTOR_RULES_GRAPH_DIM_FIXED ||
                          stride->val.fixed != expected)) {
            return false;
        }
        known = known && size >= 0 && !__builtin_mul_overflow(expected, size, &expected);
    }
    return true;
}
