// What a rule gets of the C library; there is no system below it.
#ifndef RULE_STRING_H
#define RULE_STRING_H
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
size_t strlen(const char *text);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t most);
char *strchr(const char *text, int letter);
char *strstr(const char *text, const char *part);

#endif
