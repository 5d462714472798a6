/* The measurements of a load: counters, latencies, violations; printed as lines of JSON. */
#ifndef SCORE_H
#define SCORE_H

#include "text.h"

enum kind_of_exchange { ASKED, REPORTED, UPLOADED, KINDS };

struct latencies {
    float *seconds;
    size_t count, room;
};

struct score {
    bool counting;        /* true during the measurement */
    double began, ended;  /* start and end of the measurement on the monotonic clock, seconds */
    double cpu_began, cpu_ended;
    long acknowledged, given, rpcs, uploads, no_work, come_again; /* in the measurement */
    long acknowledged_ever, given_ever, uploads_ever, rpcs_ever;
    double request_bytes, reply_bytes; /* total sizes of RPCs in the measurement */
    bool ran_out;         /* no work or no files were left */
    struct latencies latencies[KINDS];
    struct set names;     /* names of all results sent by the server */
    long violations;
};

double now(void);
void score_begin(struct score *score);
void score_end(struct score *score);
void score_latency(struct score *score, enum kind_of_exchange kind, double seconds);

/* Report a violation; only the first ten are printed. */
void score_violation(struct score *score, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print an "at" event with the progress. */
void score_tick(const struct score *score);
void score_print(struct score *score);

#endif
