/* What the bench asks of the load generator: words of the form name=value. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "text.h"

/* What a host does that is told that there is no work. */
enum without_work { ENDS, COUNTS, WAITS };

struct options {
    long port;
    long results;         /* asked for in each RPC; 0: no RPCs, uploads alone */
    long in_flight;       /* exchanges at once at most; 0: one for each host */
    long total;           /* results to report; 0: until time is up */
    double warm_up;       /* seconds that do not count */
    double seconds;       /* that count; 0: until the total is reached */
    double again;         /* seconds until a host asks again that got nothing */
    double most;          /* seconds after which a run without end is a fault */
    long uploads;         /* outputs are uploaded before results are reported */
    long apart;           /* reports have RPCs of their own */
    long fresh;           /* a new connection for each exchange */
    long players;         /* of uploads alone: connections */
    long sequence;        /* of the last RPC that any of the hosts made before */
    enum without_work none;
    struct text request;  /* gaps: 1 key, 2 host, 3 sequence number, 4 seconds, 5 reports */
    struct text report;   /* gap: 1 result's name */
    struct text upload;   /* gaps: 1 file's name, 2 grant, 3 most bytes, 4 bytes, 5 MD5 */
    struct text hosts;    /* lines: key, id */
    struct text outputs;  /* lines: MD5, content */
    struct text files;    /* of uploads alone: name, NUL, grant, NUL ... */
    double seconds_each;  /* what the server takes a result to last */
    long max_nbytes;      /* of uploads alone: what the grants say */
};

struct options options_of(int count, char **words);

#endif
