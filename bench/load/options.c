#define _GNU_SOURCE
#include "options.h"

#include <stdlib.h>
#include <string.h>

enum kind { NUMBER, SECONDS, FILE_OF, NONE };

struct word {
    const char *name;
    enum kind kind;
    size_t offset;
};

#define WORD(name, kind) {#name, kind, offsetof(struct options, name)}

static const struct word WORDS[] = {
    WORD(port, NUMBER),      WORD(results, NUMBER),   WORD(in_flight, NUMBER),
    WORD(total, NUMBER),     WORD(uploads, NUMBER),   WORD(apart, NUMBER),
    WORD(fresh, NUMBER),     WORD(players, NUMBER),   WORD(max_nbytes, NUMBER),
    WORD(sequence, NUMBER),
    WORD(warm_up, SECONDS),  WORD(seconds, SECONDS),  WORD(again, SECONDS),
    WORD(most, SECONDS),     WORD(seconds_each, SECONDS),
    WORD(request, FILE_OF),  WORD(report, FILE_OF),
    WORD(upload, FILE_OF),   WORD(hosts, FILE_OF),    WORD(outputs, FILE_OF),
    WORD(files, FILE_OF),    WORD(none, NONE),
};

static enum without_work without_work(const char *value)
{
    if (strcmp(value, "ends") == 0)
        return ENDS;
    if (strcmp(value, "counts") == 0)
        return COUNTS;
    if (strcmp(value, "waits") == 0)
        return WAITS;
    give_up("none=%s: expected ends, counts or waits.", value);
}

static void set(struct options *options, const struct word *word, const char *value)
{
    void *place = (char *)options + word->offset;
    switch (word->kind) {
    case NUMBER:
        *(long *)place = strtol(value, NULL, 10);
        break;
    case SECONDS:
        *(double *)place = strtod(value, NULL);
        break;
    case FILE_OF:
        *(struct text *)place = text_of_file(value);
        break;
    case NONE:
        *(enum without_work *)place = without_work(value);
        break;
    }
}

struct options options_of(int count, char **words)
{
    struct options options = {.again = 0.02, .most = 600, .seconds_each = 3600};
    for (int place = 1; place < count; place++) {
        const char *value = strchr(words[place], '=');
        size_t index = 0;
        while (value != NULL && index < sizeof WORDS / sizeof *WORDS &&
               (strlen(WORDS[index].name) != (size_t)(value - words[place]) ||
                strncmp(WORDS[index].name, words[place], (size_t)(value - words[place])) != 0))
            index++;
        if (value == NULL || index == sizeof WORDS / sizeof *WORDS)
            give_up("Unknown option of the load generator: %s.", words[place]);
        set(&options, &WORDS[index], value + 1);
    }
    return options;
}
