#define _GNU_SOURCE
#include "score.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_PRINTED = 10 };

double now(void)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    return (double)clock.tv_sec + 1e-9 * (double)clock.tv_nsec;
}

static double cpu(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

void score_begin(struct score *score)
{
    score->counting = true;
    score->began = now();
    score->cpu_began = cpu();
    puts("{\"event\": \"began\"}");
    fflush(stdout);
}

void score_end(struct score *score)
{
    score->counting = false;
    score->ended = now();
    score->cpu_ended = cpu();
    puts("{\"event\": \"ended\"}");
    fflush(stdout);
}

void score_latency(struct score *score, enum kind_of_exchange kind, double seconds)
{
    struct latencies *kept = &score->latencies[kind];
    if (!score->counting)
        return;
    if (kept->count == kept->room) {
        kept->room = 2 * kept->room + 1024;
        kept->seconds = more_memory(kept->seconds, kept->room * sizeof *kept->seconds);
    }
    kept->seconds[kept->count++] = (float)seconds;
}

void score_violation(struct score *score, const char *format, ...)
{
    if (score->violations++ >= MAX_PRINTED)
        return;
    char message[400];
    va_list words;
    va_start(words, format);
    vsnprintf(message, sizeof message, format, words);
    va_end(words);
    for (char *letter = message; *letter; letter++)
        if (*letter == '"' || *letter == '\\' || !isprint((unsigned char)*letter))
            *letter = '\'';
    printf("{\"event\": \"violation\", \"what\": \"%s\"}\n", message);
    fflush(stdout);
}

void score_tick(const struct score *score)
{
    printf("{\"event\": \"at\", \"seconds\": %.2f, \"acknowledged\": %ld, \"uploads\": %ld}\n",
           score->counting ? now() - score->began : 0.0, score->acknowledged_ever,
           score->uploads_ever);
    fflush(stdout);
}

static int compare_floats(const void *left_item, const void *right_item)
{
    float left = *(const float *)left_item, right = *(const float *)right_item;
    return (left > right) - (left < right);
}

static double share_ms(const struct latencies *kept, double share)
{
    size_t place = (size_t)(share * (double)kept->count);
    if (kept->count == 0)
        return 0.0;
    return 1000.0 * (double)kept->seconds[place < kept->count ? place : kept->count - 1];
}

static void print_latencies(const char *name, struct latencies *kept, const char *after)
{
    qsort(kept->seconds, kept->count, sizeof *kept->seconds, compare_floats);
    printf("\"%s\": {\"count\": %zu, \"p50\": %.3f, \"p99\": %.3f, \"longest\": %.3f}%s", name,
           kept->count, share_ms(kept, 0.5), share_ms(kept, 0.99), share_ms(kept, 1.0), after);
}

void score_print(struct score *score)
{
    printf("{\"event\": \"sum\", \"seconds\": %.6f, \"cpu\": %.6f, ", score->ended - score->began,
           score->cpu_ended - score->cpu_began);
    printf("\"acknowledged\": %ld, \"given\": %ld, \"rpcs\": %ld, \"uploads\": %ld, ",
           score->acknowledged, score->given, score->rpcs, score->uploads);
    printf("\"no_work\": %ld, \"come_again\": %ld, ", score->no_work, score->come_again);
    printf("\"acknowledged_ever\": %ld, \"given_ever\": %ld, ", score->acknowledged_ever,
           score->given_ever);
    printf("\"uploads_ever\": %ld, \"rpcs_ever\": %ld, ", score->uploads_ever, score->rpcs_ever);
    double rpcs = score->rpcs ? (double)score->rpcs : 1.0;
    printf("\"request_bytes\": %.0f, \"reply_bytes\": %.0f, ", score->request_bytes / rpcs,
           score->reply_bytes / rpcs);
    printf("\"ran_out\": %s, \"violations\": %ld, \"latency_ms\": {",
           score->ran_out ? "true" : "false", score->violations);
    print_latencies("asked", &score->latencies[ASKED], ", ");
    print_latencies("reported", &score->latencies[REPORTED], ", ");
    print_latencies("uploaded", &score->latencies[UPLOADED], "}}\n");
}
