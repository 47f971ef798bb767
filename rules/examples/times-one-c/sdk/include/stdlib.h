// What a rule gets of the C library; there is no system below it.
#ifndef RULE_STDLIB_H
#define RULE_STDLIB_H
#include <stddef.h>

// Never gives NULL: a rule that wants more than the sandbox allows is ended.
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);
// Does nothing: every call of a rule has a memory of its own, which goes away as a whole.
void free(void *block);
_Noreturn void abort(void);
void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));

#endif
