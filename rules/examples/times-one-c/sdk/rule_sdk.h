// What the author of a repair rule in C depends on.
//
// A rule defines two functions: `describe` says what the rule is and what it wants to see, `examine`
// answers for one place of a graph. Views are pointers into what the host handed over; every function
// takes NULL for "there is none" and gives a neutral value back, and the first reason that comes up on
// the way is the rule's answer. TRY and REQUIRE return at once.
//
// Nothing has to be freed, and nothing is kept from one call to the next.

#ifndef RULE_SDK_H
#define RULE_SDK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bindings/repair_rule.h"

// ---------------------------------------------------------------------------------------------------
// What the rule defines.

typedef exports_delegate_doctor_rules_rule_manifest_t Manifest;
typedef exports_delegate_doctor_rules_rule_anchor_t Anchor;
// One place of a graph.
typedef const delegate_doctor_rules_graph_site_t *Site;
// A node of a site: `id`, `outside_delegate` and the functions below.
typedef const delegate_doctor_rules_graph_node_t *Node;
// A value that a node takes or returns: `id`, `use_count`, `is_graph_output`, `is_mutated`, `is_aliased`,
// `is_constant`.
typedef const delegate_doctor_rules_graph_value_t *Value;
// What is known about a tensor: `dtype` and the functions below.
typedef const delegate_doctor_rules_graph_tensor_meta_t *Tensor;
typedef delegate_doctor_rules_graph_scalar_type_t ScalarType;
typedef delegate_doctor_rules_edits_numerics_t Numerics;
// A value of the site, or one that a patch makes.
typedef delegate_doctor_rules_edits_value_ref_t ValueRef;

// The answer of a rule; made by `decline`, `fault` and `patch_finish`.
typedef struct {
    bool is_fault;
    delegate_doctor_rules_edits_verdict_t verdict;
    const char *message;
} Verdict;

// Says what the rule is.
void describe(Manifest *manifest);
// The answer for one site; depends on nothing but the site.
Verdict examine(Site site);

// ---------------------------------------------------------------------------------------------------
// Answers.

#define RULE_TEXT_(x) #x
#define RULE_TEXT(x) RULE_TEXT_(x)
// The place in the source, for messages.
#define HERE __FILE__ ":" RULE_TEXT(__LINE__)

// Evaluates to the value of an accessor; returns from `examine` when the accessor had a reason not to
// give one.
#define TRY(call)                       \
    __extension__({                     \
        __auto_type got_ = (call);      \
        if (is_settled()) {             \
            return settled();           \
        }                               \
        got_;                           \
    })

// Declines unless the condition holds: REQUIRE(rank == 4, "rank", "the rank is %zu", rank).
#define REQUIRE(condition, code, ...)           \
    do {                                        \
        if (!(condition)) {                     \
            return decline(code, __VA_ARGS__);  \
        }                                       \
    } while (0)

// The rule is wrong about itself: FAULT("no such case: %d", kind).
#define FAULT(...) return fault(HERE, __VA_ARGS__)

// The rule has nothing to offer here, for one of the manifest's codes.
Verdict decline(const char *code, const char *message, ...) __attribute__((format(printf, 2, 3)));
// The rule's complaint about itself.
Verdict fault(const char *place, const char *message, ...) __attribute__((format(printf, 2, 3)));
// True when an accessor declined or a mistake was found; `settled` is then the answer.
bool is_settled(void);
Verdict settled(void);
// Text by a format: %s, %.*s, %c, %d, %u, %ld, %lld, %zu, %x, %g, %f and %%.
const char *format(const char *message, ...) __attribute__((format(printf, 1, 2)));

// ---------------------------------------------------------------------------------------------------
// Manifests. A new one is stable, exact and for every backend.

void manifest_name(Manifest *manifest, const char *id, const char *version, const char *title);
void manifest_summary(Manifest *manifest, const char *summary);
// The weakest claim that any rewrite of the rule makes.
void manifest_numerics(Manifest *manifest, Numerics numerics);
// Marks the rule as one that may still change its mind.
void manifest_preview(Manifest *manifest);
void manifest_backend(Manifest *manifest, const char *backend);
void manifest_code(Manifest *manifest, const char *code, const char *summary);
// Adds an anchor on one op; the pointer is good until the next anchor is added.
Anchor *manifest_anchor(Manifest *manifest, const char *op);
void anchor_op(Anchor *anchor, const char *op);
// Shows that many producers of producers and consumers of consumers.
void anchor_surroundings(Anchor *anchor, uint8_t producers, uint8_t consumers);
// Only where the argument is returned by one of `ops`; the list ends with NULL.
void anchor_fed_by(Anchor *anchor, const char *input, const char *const *ops);
void anchor_outside_delegate(Anchor *anchor);

// The same bits for every input.
Numerics exact(void);
// The same up to rounding, relative to the scale of the output.
Numerics tolerant(double rtol, double atol);
// Repairs a lowering that computes something else.
Numerics corrective(double rtol, double atol);

// ---------------------------------------------------------------------------------------------------
// Views. Those that can decline are meant for TRY.

typedef struct {
    const int64_t *ptr;
    size_t len;
} Ints;
typedef struct {
    const double *ptr;
    size_t len;
} Floats;
typedef struct {
    const Value *ptr;
    size_t len;
} Values;

// The node that matched.
Node site_anchor(Site site);
// By id; NULL when the site does not show it.
Node site_node(Site site, uint32_t id);
Value site_value(Site site, uint32_t id);

// Full overload name, e.g. `aten.softmax.int`.
const char *node_op(Node node);
bool node_is(Node node, const char *op);
// True when the argument is absent or None.
bool node_is_none(Node node, const char *name);
// Declines when the argument is no known integer.
int64_t node_int(Node node, const char *name);
// Declines when the argument is no list of known integers; one integer counts as a list.
Ints node_ints(Node node, const char *name);
// Declines when the argument is no number; integers count.
double node_float(Node node, const char *name);
// Declines when the argument is no list of numbers; one number counts as a list.
Floats node_floats(Node node, const char *name);
bool node_bool(Node node, const char *name);
const char *node_text(Node node, const char *name);
// Declines when the argument is no element type.
ScalarType node_dtype(Node node, const char *name);
// Declines when the argument is not one value of the graph.
Value node_tensor(Node node, const char *name);
Values node_tensors(Node node, const char *name);
// Declines when there is no such output.
Value node_output(Node node, size_t index);
size_t node_output_count(Node node);

// The node that returns the value; NULL when the site does not show it.
Node value_producer(Value value);
// The caller, the state or a constant gives it: no node returns it.
bool value_is_graph_input(Value value);
// Declines when the value is no tensor.
Tensor value_tensor(Value value);

size_t tensor_rank(Tensor tensor);
// One size, when it is known and the dimension is there; else -1.
int64_t tensor_size(Tensor tensor, size_t dim);
// All sizes; declines when one varies from run to run.
Ints tensor_sizes(Tensor tensor);
// `dim` counted from the front; -1 when it is out of range.
int64_t tensor_dimension(Tensor tensor, int64_t dim);
// The same sizes, element type and device.
bool tensor_same_sizes(Tensor a, Tensor b);
// Row-major without gaps.
bool tensor_is_contiguous(Tensor tensor);

// ---------------------------------------------------------------------------------------------------
// Patches. Nodes are placed before the anchor in the order they are made. A mistake comes out of
// `patch_finish` as the rule's fault, with the line where it was made.

typedef struct Patch Patch;
typedef struct NewNode NewNode;

Patch *patch_new(void);
// A value of the site, to be used by new nodes.
#define patch_tap(patch, value) patch_tap_at(patch, HERE, value)
// A new node, e.g. patch_node(patch, "aten.reshape.default"); its arguments by `arg_…`, then `patch_add`.
#define patch_node(patch, op) patch_node_at(patch, HERE, op)
// Puts the node into the patch; the answer is its first output.
ValueRef patch_add(NewNode *node);
// Another output of the node that `created` belongs to.
#define patch_output(patch, created, output) patch_output_at(patch, HERE, created, output)
// Every use of `value`, also as an output of the program, becomes a use of `by`.
#define patch_replace(patch, value, by) patch_replace_at(patch, HERE, value, by)
// One use becomes a use of `by`.
void patch_replace_use(Patch *patch, delegate_doctor_rules_graph_use_site_t use, ValueRef by);
// One argument of a node of the site becomes another value.
#define patch_set_input(patch, node, name, by) patch_set_input_at(patch, HERE, node, name, by)
// Removes a node whose outputs were replaced or never used.
#define patch_delete(patch, node) patch_delete_at(patch, HERE, node)
// Has the host compute a value that depends on constants only, once, and store it.
ValueRef patch_fold(Patch *patch, ValueRef value);
// The rewrite, with its claim and the reason it is proposed for.
Verdict patch_finish(Patch *patch, Numerics numerics, const char *code, const char *why, ...)
    __attribute__((format(printf, 4, 5)));

// Arguments by the schema's names; those that are left out take the schema's default.
void arg_value(NewNode *node, const char *name, ValueRef value);
void arg_values(NewNode *node, const char *name, const ValueRef *values, size_t count);
void arg_none(NewNode *node, const char *name);
void arg_int(NewNode *node, const char *name, int64_t number);
void arg_ints(NewNode *node, const char *name, const int64_t *numbers, size_t count);
void arg_float(NewNode *node, const char *name, double number);
void arg_bool(NewNode *node, const char *name, bool truth);
void arg_text(NewNode *node, const char *name, const char *text);
void arg_dtype(NewNode *node, const char *name, ScalarType dtype);

ValueRef patch_tap_at(Patch *patch, const char *place, Value value);
NewNode *patch_node_at(Patch *patch, const char *place, const char *op);
ValueRef patch_output_at(Patch *patch, const char *place, ValueRef created, uint32_t output);
void patch_replace_at(Patch *patch, const char *place, Value value, ValueRef by);
void patch_set_input_at(Patch *patch, const char *place, Node node, const char *name, ValueRef by);
void patch_delete_at(Patch *patch, const char *place, Node node);

#endif
