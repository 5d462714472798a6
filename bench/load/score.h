/* What a load did: counters, latencies, violations; said as lines of JSON. */
#ifndef SCORE_H
#define SCORE_H

#include "text.h"

enum kind_of_exchange { ASKED, REPORTED, UPLOADED, KINDS };

struct latencies {
    float *seconds;
    size_t count, room;
};

struct score {
    bool counting;        /* the warm-up is over, the end has not come */
    double began, ended;  /* the stretch that counts, seconds of the monotonic clock */
    double cpu_began, cpu_ended;
    long acknowledged, given, rpcs, uploads, no_work, come_again; /* in that stretch */
    long acknowledged_ever, given_ever, uploads_ever, rpcs_ever;
    double request_bytes, reply_bytes; /* of RPCs in that stretch */
    bool ran_out;         /* of work or of files */
    struct latencies latencies[KINDS];
    struct set names;     /* of all results ever given */
    long violations;
};

double now(void);
void score_begin(struct score *score);
void score_end(struct score *score);
void score_latency(struct score *score, enum kind_of_exchange kind, double seconds);

/* Say what must not be; only the first ten are said in words. */
void score_violation(struct score *score, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Tell how far it is. */
void score_tick(const struct score *score);
void score_tell(struct score *score);

#endif
