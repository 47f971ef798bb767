// What the parts of the SDK share; rules include `rule_sdk.h` only.

#ifndef RULE_ANSWERS_H
#define RULE_ANSWERS_H

#include <stdarg.h>

#include "rule_sdk.h"

// The site of this call.
extern Site current_site;

// Remembers the first reason for which there is no rewrite.
void settle(Verdict answer);
// Room for one more element behind a list that grows one by one.
void *grown(void *list, size_t length, size_t element);
const char *format_list(const char *message, va_list arguments);
// A text of the contract as C has it, and the other way round.
const char *text_of(repair_rule_string_t text);
repair_rule_string_t text_to(const char *text);
bool text_is(repair_rule_string_t text, const char *other);

#endif
