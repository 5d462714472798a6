/* A volunteer's computer: asks for results, uploads what they made, reports them. */
#ifndef HOST_H
#define HOST_H

#include "line.h"
#include "options.h"
#include "score.h"

/* A result that the host was given and has not reported; slices are of `host.kept`. */
struct given {
    struct slice name, workunit, file, grant, max_nbytes;
};

enum doing { RESTS, ASKS, REPORTS, UPLOADS, HAS_ENDED };

struct host {
    struct line line;
    struct slice key, id;
    long sequence;
    enum doing doing;
    struct text kept;     /* the reply that the results in hand came with */
    struct given *given;
    long held, uploaded, room;
    long wanted;          /* in the RPC that is under way */
    double began, rest_until;
};

struct world {
    struct options options;
    struct exchange how;
    struct score score;
    struct slice *outputs; /* contents */
    struct slice *digests; /* their MD5 */
    size_t variants;
    struct slice files;    /* of uploads alone: what is left of them */
    bool over;             /* nothing new is begun */
};

/* Begin the host's next exchange; it may end or rest instead. */
void host_begin(struct host *host, struct world *world);

/* Take the reply that its line has. */
void host_take(struct host *host, struct world *world);

#endif
