/* A simulated host: requests results, uploads outputs, reports results. */
#ifndef HOST_H
#define HOST_H

#include "line.h"
#include "options.h"
#include "score.h"

/* An unreported result of the host; slices point into `host.kept`. */
struct given {
    struct slice name, workunit, file, grant, max_nbytes;
};

enum doing { RESTS, ASKS, REPORTS, UPLOADS, HAS_ENDED };

struct host {
    struct line line;
    struct slice key, id;
    long sequence;
    enum doing doing;
    struct text kept;     /* the reply that contained the current results */
    struct given *given;
    long held, uploaded, room;
    long wanted;          /* results requested in the current RPC */
    double began, rest_until;
};

struct world {
    struct options options;
    struct exchange how;
    struct score score;
    struct slice *outputs; /* contents of the output files */
    struct slice *digests; /* MD5 of each output */
    size_t variants;
    struct slice files;    /* load of uploads only: the files that are left */
    bool over;             /* start no new exchange */
};

/* Start the host's next exchange; the host may end or pause instead. */
void host_begin(struct host *host, struct world *world);

/* Process the reply on the host's line. */
void host_take(struct host *host, struct world *world);

#endif
