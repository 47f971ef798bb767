// The part of a C library that rules and their SDK use.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Where the linker's data ends and the heap begins.
extern unsigned char __heap_base;

static const size_t PAGE = 65536;
// Header in front of every block: its size. 16 bytes, so that blocks stay aligned.
static const size_t HEADER = 16;

static uintptr_t top;

// The host reports how much was wanted; the name says the rest.
static _Noreturn void out_of_memory(void) {
    __builtin_trap();
}

static void reserve(uintptr_t end) {
    uintptr_t have = __builtin_wasm_memory_size(0) * PAGE;
    if (end > have) {
        size_t pages = (end - have + PAGE - 1) / PAGE;
        if (__builtin_wasm_memory_grow(0, pages) == SIZE_MAX) {
            out_of_memory();
        }
    }
}

void *malloc(size_t size) {
    if (top == 0) {
        top = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
    }
    if (size > (SIZE_MAX >> 1)) {
        out_of_memory();
    }
    size_t whole = HEADER + ((size + 15) & ~(size_t)15);
    if (top > SIZE_MAX - whole) {
        out_of_memory();
    }
    reserve(top + whole);
    size_t *header = (size_t *)top;
    *header = size;
    top += whole;
    return (unsigned char *)header + HEADER;
}

void *calloc(size_t count, size_t size) {
    size_t whole;
    if (__builtin_mul_overflow(count, size, &whole)) {
        out_of_memory();
    }
    return memset(malloc(whole), 0, whole);
}

void *realloc(void *old, size_t size) {
    if (old == NULL) {
        return malloc(size);
    }
    size_t had = *(size_t *)((unsigned char *)old - HEADER);
    if (size <= had) {
        return old;
    }
    return memcpy(malloc(size), old, had);
}

void free(void *block) {
    (void)block;
}

_Noreturn void abort(void) {
    __builtin_trap();
}

void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *)) {
    // Insertion: the lists of a site are short.
    unsigned char *list = base;
    unsigned char *moved = malloc(size);
    for (size_t i = 1; i < count; i++) {
        size_t place = i;
        memcpy(moved, list + i * size, size);
        while (place > 0 && compare(list + (place - 1) * size, moved) > 0) {
            memcpy(list + place * size, list + (place - 1) * size, size);
            place--;
        }
        memcpy(list + place * size, moved, size);
    }
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    unsigned char *out = to;
    const unsigned char *in = from;
    for (size_t i = 0; i < size; i++) {
        out[i] = in[i];
    }
    return to;
}

void *memmove(void *to, const void *from, size_t size) {
    unsigned char *out = to;
    const unsigned char *in = from;
    if (out <= in) {
        for (size_t i = 0; i < size; i++) {
            out[i] = in[i];
        }
    } else {
        for (size_t i = size; i > 0; i--) {
            out[i - 1] = in[i - 1];
        }
    }
    return to;
}

void *memset(void *to, int byte, size_t size) {
    unsigned char *out = to;
    for (size_t i = 0; i < size; i++) {
        out[i] = (unsigned char)byte;
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t size) {
    const unsigned char *left = a;
    const unsigned char *right = b;
    for (size_t i = 0; i < size; i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length] != '\0') {
        length++;
    }
    return length;
}

int strncmp(const char *a, const char *b, size_t most) {
    for (size_t i = 0; i < most; i++) {
        unsigned char left = (unsigned char)a[i];
        unsigned char right = (unsigned char)b[i];
        if (left != right || left == '\0') {
            return left - right;
        }
    }
    return 0;
}

int strcmp(const char *a, const char *b) {
    return strncmp(a, b, SIZE_MAX);
}

char *strchr(const char *text, int letter) {
    for (;; text++) {
        if (*text == (char)letter) {
            return (char *)text;
        }
        if (*text == '\0') {
            return NULL;
        }
    }
}

char *strstr(const char *text, const char *part) {
    size_t length = strlen(part);
    for (;; text++) {
        if (strncmp(text, part, length) == 0) {
            return (char *)text;
        }
        if (*text == '\0') {
            return NULL;
        }
    }
}

// The bindings ask for this symbol of an object file with the contract's types; `rules build` puts the
// types into the linked module instead.
void __component_type_object_force_link_repair_rule(void) {}
