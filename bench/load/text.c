#define _GNU_SOURCE
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char GAPS[] = "\1\2\3\4\5\6\7";

void give_up(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\n', stderr);
    exit(2);
}

void *more_memory(void *old, size_t bytes)
{
    void *memory = realloc(old, bytes);
    if (memory == NULL)
        give_up("Out of memory: %zu bytes.", bytes);
    return memory;
}

struct slice whole(const struct text *text)
{
    return (struct slice){text->at, text->length};
}

struct slice literal(const char *words)
{
    return (struct slice){words, strlen(words)};
}

bool same(struct slice left, struct slice right)
{
    return left.length == right.length && memcmp(left.at, right.at, left.length) == 0;
}

bool contains(struct slice text, const char *words)
{
    return text.length > 0 && memmem(text.at, text.length, words, strlen(words)) != NULL;
}

struct slice between(struct slice *rest, const char *open, const char *close)
{
    const struct slice nothing = {NULL, 0};
    if (rest->length == 0)
        return nothing;
    const char *end = rest->at + rest->length;
    const char *from = memmem(rest->at, rest->length, open, strlen(open));
    if (from == NULL)
        return nothing;
    from += strlen(open);
    const char *to = memmem(from, (size_t)(end - from), close, strlen(close));
    if (to == NULL)
        return nothing;
    rest->at = to + strlen(close);
    rest->length = (size_t)(end - rest->at);
    return (struct slice){from, (size_t)(to - from)};
}

static void make_room(struct text *text, size_t more)
{
    if (text->length + more < text->room)
        return;
    text->room = 2 * (text->length + more) + 256;
    text->at = more_memory(text->at, text->room);
}

void text_add(struct text *text, struct slice more)
{
    make_room(text, more.length);
    if (more.length > 0)
        memcpy(text->at + text->length, more.at, more.length);
    text->length += more.length;
}

void text_print(struct text *text, const char *format, ...)
{
    va_list words, again;
    va_start(words, format);
    va_copy(again, words);
    int length = vsnprintf(NULL, 0, format, words);
    make_room(text, (size_t)length + 1);
    vsnprintf(text->at + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
    va_end(again);
    va_end(words);
}

void text_swap(struct text *left, struct text *right)
{
    struct text saved = *left;
    *left = *right;
    *right = saved;
}

void text_fill(struct text *text, const struct text *template, const struct slice *gaps)
{
    const char *from = template->at, *end = template->at + template->length;
    for (;;) {
        size_t plain = strcspn(from, GAPS);
        text_add(text, (struct slice){from, plain});
        from += plain;
        if (from >= end)
            return;
        text_add(text, gaps[*from - 1]);
        from++;
    }
}

struct text text_of_file(const char *path)
{
    struct text text = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        give_up("%s cannot be read.", path);
    char piece[65536];
    size_t length;
    while ((length = fread(piece, 1, sizeof piece, file)) > 0)
        text_add(&text, (struct slice){piece, length});
    fclose(file);
    text_add(&text, (struct slice){"", 1}); /* a terminator for strcspn */
    text.length--;
    return text;
}

uint64_t hash_of(struct slice name)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a, 64 bits */
    for (size_t place = 0; place < name.length; place++)
        hash = (hash ^ (unsigned char)name.at[place]) * 1099511628211u;
    return hash;
}

static bool put(struct set *set, uint64_t hash)
{
    size_t place = hash & (set->room - 1);
    while (set->places[place] != 0 && set->places[place] != hash)
        place = (place + 1) & (set->room - 1);
    bool is_new = set->places[place] == 0;
    set->places[place] = hash;
    return is_new;
}

bool set_add(struct set *set, struct slice name)
{
    if (2 * set->count >= set->room) {
        struct set larger = {NULL, set->count, set->room ? 4 * set->room : 4096};
        larger.places = calloc(larger.room, sizeof *larger.places);
        if (larger.places == NULL)
            give_up("Out of memory: %zu names.", larger.room);
        for (size_t place = 0; place < set->room; place++)
            if (set->places[place] != 0)
                put(&larger, set->places[place]);
        free(set->places);
        *set = larger;
    }
    bool is_new = put(set, hash_of(name) | 1);
    set->count += is_new;
    return is_new;
}
