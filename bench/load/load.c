/* The bench's load generator: simulates many volunteers' computers in one thread.

   `python -m bench` builds it, describes the load by options name=value (options.h) and reads lines
   of JSON from it: {"event": "began"}, "at" periodically, "violation", "ended", finally "sum". */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A longer time until a reply is a violation. */
static const double REPLY_TIMEOUT_SECONDS = 30.0;
static const double TICK = 0.25;

static volatile sig_atomic_t stop_requested;

static void on_signal(int number)
{
    (void)number;
    stop_requested = 1;
}

/* Split a text into lines of two words. */
static size_t pairs(const struct text *text, struct slice **firsts, struct slice **seconds)
{
    size_t count = 0;
    struct slice rest = whole(text);
    for (size_t place = 0; place < text->length; place++)
        count += text->at[place] == '\n';
    *firsts = more_memory(NULL, (count + 1) * sizeof **firsts);
    *seconds = more_memory(NULL, (count + 1) * sizeof **seconds);
    for (size_t line = 0; line < count; line++) {
        (*firsts)[line] = between(&rest, "", " ");
        (*seconds)[line] = between(&rest, "", "\n");
    }
    return count;
}

static bool is_busy(const struct host *host)
{
    return host->doing == ASKS || host->doing == REPORTS || host->doing == UPLOADS;
}

/* Start all exchanges that can start; return the number of current exchanges. */
static long begin_all(struct host *hosts, size_t count, struct world *world, long busy)
{
    static size_t next;
    double at = now();
    for (size_t seen = 0; seen < count && busy < world->options.in_flight && !world->over; seen++) {
        struct host *host = &hosts[next];
        next = (next + 1) % count;
        if (host->doing != RESTS || host->rest_until > at)
            continue;
        host_begin(host, world);
        busy += is_busy(host);
    }
    return busy;
}

static void check_hosts(struct host *hosts, size_t count, struct world *world)
{
    double at = now();
    bool all_ended = true;
    for (size_t place = 0; place < count; place++) {
        all_ended &= hosts[place].doing == HAS_ENDED;
        if (is_busy(&hosts[place]) && hosts[place].began + REPLY_TIMEOUT_SECONDS < at) {
            score_violation(&world->score, "No reply was received within %.0f s.",
                            REPLY_TIMEOUT_SECONDS);
            hosts[place].doing = HAS_ENDED;
            line_close(&hosts[place].line);
            world->over = true;
        }
    }
    world->over |= all_ended || stop_requested;
}

/* Start the measurement after the warm-up; end the load when its time is over. */
static void watch(struct world *world, double started)
{
    struct score *score = &world->score;
    const struct options *options = &world->options;
    double at = now();
    if (!score->counting && score->began == 0.0 && at >= started + options->warm_up)
        score_begin(score);
    if (options->seconds > 0 && at >= started + options->warm_up + options->seconds)
        world->over = true;
    if (at > started + options->most) {
        score_violation(score, "The load did not end within %.0f s.", options->most);
        world->over = true;
    }
    if (world->over && score->counting && (options->seconds > 0 || options->total == 0))
        score_end(score);
}

static void handle_event(struct host *host, struct world *world)
{
    char byte;
    if (!is_busy(host)) {
        /* A server may close an idle connection. */
        if (host->line.fd >= 0 && recv(host->line.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            line_close(&host->line);
        return;
    }
    switch (line_go_on(&host->line)) {
    case WAITING:
        return;
    case ANSWERED:
        host_take(host, world);
        return;
    case BROKEN:
        score_violation(&world->score, "%s: %.60s", host->line.fault,
                        host->line.in.length ? host->line.in.at : "");
        host->doing = HAS_ENDED;
        world->over = true;
    }
}

static void run_load(struct host *hosts, size_t count, struct world *world)
{
    enum { EVENTS = 64 };
    struct epoll_event events[EVENTS];
    double started = now(), ticked_at = started;
    for (long busy = 0;;) {
        watch(world, started);
        busy = begin_all(hosts, count, world, busy);
        if (busy == 0 && world->over)
            break;
        int ready = epoll_wait(world->how.epoll, events, EVENTS, 5);
        if (ready < 0 && errno != EINTR)
            give_up("epoll_wait failed: %s.", strerror(errno));
        for (int event = 0; event < ready; event++)
            handle_event(&hosts[events[event].data.u32], world);
        if (ready <= 0 || now() >= ticked_at + TICK) {
            check_hosts(hosts, count, world);
            if (now() >= ticked_at + TICK) {
                score_tick(&world->score);
                ticked_at = now();
            }
        }
        busy = 0;
        for (size_t place = 0; place < count; place++)
            busy += is_busy(&hosts[place]);
    }
    if (world->score.began == 0.0)
        score_begin(&world->score);
    if (world->score.counting)
        score_end(&world->score);
}

int main(int argc, char **argv)
{
    struct world world = {.options = options_of(argc, argv)};
    struct options *options = &world.options;
    struct slice *keys = NULL, *ids = NULL;
    size_t count = (size_t)options->players;
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    if (options->hosts.at)
        count = pairs(&options->hosts, &keys, &ids);
    if (options->outputs.at)
        world.variants = pairs(&options->outputs, &world.digests, &world.outputs);
    if (options->in_flight == 0)
        options->in_flight = (long)count;
    world.files = whole(&options->files);
    world.how = (struct exchange){epoll_create1(EPOLL_CLOEXEC), (int)options->port,
                                  options->fresh != 0};
    struct host *hosts = calloc(count + 1, sizeof *hosts);
    if (hosts == NULL)
        give_up("Out of memory: %zu hosts.", count);
    for (size_t place = 0; place < count; place++) {
        hosts[place].line.fd = -1;
        hosts[place].line.number = (int)place;
        if (keys) {
            hosts[place].key = keys[place];
            hosts[place].id = ids[place];
            hosts[place].sequence = options->sequence;
        }
    }
    run_load(hosts, count, &world);
    score_print(&world.score);
    return 0;
}
