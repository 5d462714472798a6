/* Growing buffers, slices of them, templates with gaps, and a set of names. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *at;
    size_t length, room;
};

/* Bytes in another buffer; `at` is NULL if nothing was found. */
struct slice {
    const char *at;
    size_t length;
};

/* A hash set of names: open addressing over 64-bit hashes, whose collisions are negligible. */
struct set {
    uint64_t *places;
    size_t count, room;
};

struct slice whole(const struct text *text);
struct slice literal(const char *words);
bool same(struct slice left, struct slice right);
bool contains(struct slice text, const char *words);

/* Return the text between two words, and move the start of `rest` behind the second. */
struct slice between(struct slice *rest, const char *open, const char *close);

void text_add(struct text *text, struct slice more);
void text_print(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_swap(struct text *left, struct text *right);

/* Append a template, with each byte 1 to 7 replaced by the gap of that number. */
void text_fill(struct text *text, const struct text *template, const struct slice *gaps);

/* Read a whole file; exit if it cannot be read. */
struct text text_of_file(const char *path);

uint64_t hash_of(struct slice name);

/* Add a name; return false if the set already contains it. */
bool set_add(struct set *set, struct slice name);

void *more_memory(void *old, size_t bytes);
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
