// Texts: formats, and the two forms that a text has.

#include <stdlib.h>
#include <string.h>

#include "answers.h"

typedef struct {
    char *ptr;
    size_t len;
    size_t room;
} Text;

static void put(Text *text, char letter) {
    if (text->len == text->room) {
        text->room = text->room == 0 ? 64 : 2 * text->room;
        text->ptr = realloc(text->ptr, text->room);
    }
    text->ptr[text->len++] = letter;
}

static void put_all(Text *text, const char *letters, size_t most) {
    for (size_t i = 0; i < most && letters[i] != '\0'; i++) {
        put(text, letters[i]);
    }
}

static void put_unsigned(Text *text, uint64_t number, unsigned base, size_t digits) {
    char reversed[24];
    size_t length = 0;
    do {
        reversed[length++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    for (size_t i = length; i < digits; i++) {
        put(text, '0');
    }
    while (length > 0) {
        put(text, reversed[--length]);
    }
}

static void put_signed(Text *text, int64_t number) {
    if (number < 0) {
        put(text, '-');
    }
    put_unsigned(text, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10, 0);
}

// Whole numbers as they are, others with up to six digits behind the point, very large and very small
// ones with an exponent.
static void put_double(Text *text, double number) {
    if (__builtin_isnan(number)) {
        put_all(text, "nan", 3);
        return;
    }
    if (__builtin_signbit(number)) {
        put(text, '-');
        number = -number;
    }
    if (__builtin_isinf(number)) {
        put_all(text, "inf", 3);
        return;
    }
    int exponent = 0;
    if (number != 0 && (number >= 1e15 || number < 1e-4)) {
        for (; number >= 10; exponent++) {
            number /= 10;
        }
        for (; number < 1; exponent--) {
            number *= 10;
        }
    }
    uint64_t whole = (uint64_t)number;
    uint64_t part = (uint64_t)((number - (double)whole) * 1e6 + 0.5);
    if (part >= 1000000) {
        whole++;
        part = 0;
    }
    put_unsigned(text, whole, 10, 0);
    if (part > 0) {
        size_t digits = 6;
        for (; part % 10 == 0; part /= 10) {
            digits--;
        }
        put(text, '.');
        put_unsigned(text, part, 10, digits);
    }
    if (exponent != 0) {
        put(text, 'e');
        put_signed(text, exponent);
    }
}

const char *format_list(const char *message, va_list arguments) {
    Text text = {0};
    for (; *message != '\0'; message++) {
        if (*message != '%') {
            put(&text, *message);
            continue;
        }
        const char *begin = message++;
        size_t most = SIZE_MAX;
        if (strncmp(message, ".*", 2) == 0) {
            int given = va_arg(arguments, int);
            most = given < 0 ? 0 : (size_t)given;
            message += 2;
        }
        unsigned longs = 0;
        bool is_size = *message == 'z';
        message += is_size;
        for (; *message == 'l'; message++) {
            longs++;
        }
        switch (*message) {
        case 's': {
            const char *letters = va_arg(arguments, const char *);
            put_all(&text, letters == NULL ? "(null)" : letters, most);
            break;
        }
        case 'c':
            put(&text, (char)va_arg(arguments, int));
            break;
        case 'd':
        case 'i':
            put_signed(&text, longs >= 2  ? va_arg(arguments, long long)
                              : longs == 1 ? va_arg(arguments, long)
                              : is_size    ? va_arg(arguments, ptrdiff_t)
                                           : va_arg(arguments, int));
            break;
        case 'u':
        case 'x':
            put_unsigned(&text,
                         longs >= 2  ? va_arg(arguments, unsigned long long)
                         : longs == 1 ? va_arg(arguments, unsigned long)
                         : is_size    ? va_arg(arguments, size_t)
                                      : va_arg(arguments, unsigned),
                         *message == 'x' ? 16 : 10, 0);
            break;
        case 'e':
        case 'f':
        case 'g':
            put_double(&text, va_arg(arguments, double));
            break;
        case '%':
            put(&text, '%');
            break;
        default:
            // What is not understood stands in the text, and so does the rest.
            put_all(&text, begin, SIZE_MAX);
            put(&text, '\0');
            return text.ptr;
        }
    }
    put(&text, '\0');
    return text.ptr;
}

const char *format(const char *message, ...) {
    va_list arguments;
    va_start(arguments, message);
    const char *text = format_list(message, arguments);
    va_end(arguments);
    return text;
}

const char *text_of(repair_rule_string_t text) {
    char *copy = malloc(text.len + 1);
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return copy;
}

repair_rule_string_t text_to(const char *text) {
    if (text == NULL) {
        text = "";
    }
    return (repair_rule_string_t){(uint8_t *)text, strlen(text)};
}

bool text_is(repair_rule_string_t text, const char *other) {
    return other != NULL && strlen(other) == text.len && memcmp(text.ptr, other, text.len) == 0;
}
