/* The options of the load generator: arguments of the form name=value. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "text.h"

/* What a host does after a reply without work. */
enum without_work { ENDS, COUNTS, WAITS };

struct options {
    long port;
    long results;         /* results requested in each RPC; 0: no RPCs, only uploads */
    long in_flight;       /* maximum of concurrent exchanges; 0: one for each host */
    long total;           /* results to report; 0: until `seconds` are over */
    double warm_up;       /* seconds before the measurement */
    double seconds;       /* duration of the measurement; 0: until the total is reached */
    double again;         /* seconds until the next request after a reply without work */
    double most;          /* timeout of the load in seconds; exceeding it is a violation */
    long uploads;         /* outputs are uploaded before results are reported */
    long apart;           /* reports are sent in separate RPCs */
    long fresh;           /* a new connection for each exchange */
    long players;         /* load of uploads only: number of connections */
    long sequence;        /* the highest RPC sequence number of earlier loads */
    enum without_work none;
    struct text request;  /* gaps: 1 key, 2 host, 3 sequence number, 4 seconds, 5 reports */
    struct text report;   /* gap: 1 result's name */
    struct text upload;   /* gaps: 1 file's name, 2 grant, 3 maximum of bytes, 4 bytes, 5 MD5 */
    struct text hosts;    /* lines: key, id */
    struct text outputs;  /* lines: MD5, content */
    struct text files;    /* load of uploads only: name, NUL, grant, NUL ... */
    double seconds_each;  /* the server's estimate of a result's run time */
    long max_nbytes;      /* load of uploads only: the maximum in the grants */
};

struct options options_of(int count, char **words);

#endif
