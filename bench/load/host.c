#define _GNU_SOURCE
#include "host.h"

#include <stdlib.h>
#include <string.h>

static const char SCHEDULER[] = "/cgi/scheduler", UPLOADER[] = "/upload/file_upload_handler";
/* The server sends this message if other RPCs had locked the candidates; the host retries. */
static const char COME_AGAIN[] = "too recent";
static const char NO_TASKS[] = "No tasks sent", NO_WORK[] = "Project has no tasks available";

static struct slice number(struct text *text, long value)
{
    text->length = 0;
    text_print(text, "%ld", value);
    return whole(text);
}

/* Requests */

static void send(struct host *host, struct world *world, enum doing doing, const char *path,
                 const struct text *body)
{
    host->doing = doing;
    host->began = now();
    if (line_ask(&host->line, &world->how, path, body) == BROKEN) {
        score_violation(&world->score, "%s.", host->line.fault);
        host->doing = HAS_ENDED;
        world->over = true;
    }
}

static void upload(struct host *host, struct world *world, const struct given *given)
{
    static struct text body, length;
    size_t variant = hash_of(given->workunit) % world->variants;
    struct slice data = world->outputs[variant];
    const struct slice gaps[] = {given->file, given->grant,
                                 given->max_nbytes, number(&length, (long)data.length),
                                 world->digests[variant]};
    body.length = 0;
    text_fill(&body, &world->options.upload, gaps);
    text_add(&body, data);
    send(host, world, UPLOADS, UPLOADER, &body);
}

static void upload_next_file(struct host *host, struct world *world)
{
    static struct text most;
    struct slice *rest = &world->files;
    struct given given = {0};
    if (rest->length == 0) {
        world->score.ran_out = world->over = true;
        host->doing = HAS_ENDED;
        return;
    }
    struct slice *parts[] = {&given.file, &given.grant};
    for (int part = 0; part < 2; part++) {
        size_t length = strlen(rest->at);
        *parts[part] = (struct slice){rest->at, length};
        rest->at += length + 1;
        rest->length -= length + 1;
    }
    given.name = given.workunit = given.file;
    given.max_nbytes = number(&most, world->options.max_nbytes);
    upload(host, world, &given);
}

/* Return the number of results to request now. */
static long results_to_request(const struct host *host, const struct world *world)
{
    const struct options *options = &world->options;
    if (world->over || (options->apart && host->held > 0))
        return 0;
    if (options->total == 0)
        return options->results;
    long left = options->total - world->score.given_ever;
    return left < options->results ? (left > 0 ? left : 0) : options->results;
}

static void call(struct host *host, struct world *world)
{
    static struct text body, reports, sequence, seconds;
    const struct options *options = &world->options;
    host->wanted = results_to_request(host, world);
    if (host->wanted == 0 && host->held == 0) {
        /* All other results were sent to other hosts and are not sent again. */
        host->doing = HAS_ENDED;
        return;
    }
    reports.length = 0;
    for (long place = 0; place < host->held; place++)
        text_fill(&reports, &options->report, &host->given[place].name);
    /* The server sends results while seconds are left: request half a result less. */
    double wanted = host->wanted ? ((double)host->wanted - 0.5) * options->seconds_each : 0.0;
    const struct slice gaps[] = {host->key, host->id, number(&sequence, ++host->sequence),
                                 number(&seconds, (long)wanted), whole(&reports)};
    body.length = 0;
    text_fill(&body, &options->request, gaps);
    if (world->score.counting)
        world->score.request_bytes += (double)body.length;
    send(host, world, host->wanted ? ASKS : REPORTS, SCHEDULER, &body);
}

void host_begin(struct host *host, struct world *world)
{
    if (world->options.results == 0)
        upload_next_file(host, world);
    else if (world->options.uploads && host->uploaded < host->held)
        upload(host, world, &host->given[host->uploaded]);
    else
        call(host, world);
}

/* Replies */

static void check_acknowledgements(struct host *host, struct world *world, struct slice reply)
{
    long acknowledged = 0;
    struct slice block;
    while ((block = between(&reply, "<result_ack>", "</result_ack>")).at != NULL) {
        struct slice name = between(&block, "<name>", "</name>");
        bool is_reported = false;
        for (long place = 0; place < host->held && !is_reported; place++)
            if (host->given[place].name.at && same(name, host->given[place].name)) {
                host->given[place].name.at = NULL;
                is_reported = true;
            }
        if (!is_reported)
            score_violation(&world->score, "%.*s was acknowledged and not reported.",
                            (int)name.length, name.at);
        acknowledged += is_reported;
    }
    if (acknowledged != host->held)
        score_violation(&world->score, "%ld results were reported, %ld acknowledged.", host->held,
                        acknowledged);
    world->score.acknowledged_ever += acknowledged;
    if (world->score.counting)
        world->score.acknowledged += acknowledged;
    host->held = host->uploaded = 0;
}

/* Return the host's result with this output file, or NULL. */
static struct given *result_of(struct host *host, struct slice file)
{
    for (long place = 0; place < host->held; place++)
        if (same(host->given[place].file, file))
            return &host->given[place];
    return NULL;
}

static void read_results(struct host *host, struct world *world, struct slice reply)
{
    struct slice block;
    while ((block = between(&reply, "<result>", "</result>")).at != NULL) {
        if (host->held == host->room) {
            host->room = 2 * host->room + 32;
            host->given = more_memory(host->given, (size_t)host->room * sizeof *host->given);
        }
        struct given *given = &host->given[host->held++];
        struct slice name = block, workunit = block, file = block;
        given->name = between(&name, "<name>", "</name>");
        given->workunit = between(&workunit, "<wu_name>", "</wu_name>");
        given->file = between(&file, "<file_name>", "</file_name>");
        given->grant = (struct slice){NULL, 0};
        if (given->name.at == NULL || given->workunit.at == NULL || given->file.at == NULL) {
            score_violation(&world->score, "A result has no name, workunit or output.");
            host->held--;
        } else if (!set_add(&world->score.names, given->name))
            score_violation(&world->score, "%.*s was sent twice.", (int)given->name.length,
                            given->name.at);
    }
    world->score.given_ever += host->held;
    if (world->score.counting)
        world->score.given += host->held;
}

static void read_grants(struct host *host, struct world *world, struct slice reply)
{
    struct slice block;
    while ((block = between(&reply, "<file_info>", "</file_info>")).at != NULL) {
        struct slice grant = block, name = block, most = block;
        grant = between(&grant, "<xml_signature>", "</xml_signature>");
        if (grant.at == NULL)
            continue;
        struct given *given = result_of(host, between(&name, "<name>", "</name>"));
        if (given != NULL) {
            given->grant = grant;
            given->max_nbytes = between(&most, "<max_nbytes>", "</max_nbytes>");
        }
    }
    for (long place = 0; place < host->held; place++)
        if (host->given[place].grant.at == NULL)
            score_violation(&world->score, "%.*s has no grant to upload its output.",
                            (int)host->given[place].name.length, host->given[place].name.at);
}

/* Handle a reply without results to a request for results. */
static void take_nothing(struct host *host, struct world *world, struct slice reply)
{
    struct score *score = &world->score;
    bool come_again = contains(reply, COME_AGAIN);
    /* Near the end of a load, the remaining results may be for other hosts. */
    const char *expected = world->options.none == WAITS ? NO_TASKS : NO_WORK;
    if (!come_again && !contains(reply, expected)) {
        struct slice message = between(&reply, "<message", "</message>");
        score_violation(score, "No work was sent, without a reason: %.*s", (int)message.length,
                        message.at ? message.at : "");
    }
    if (score->counting) {
        score->come_again += come_again;
        score->no_work += !come_again;
    }
    if (come_again || world->options.none == WAITS)
        host->rest_until = now() + world->options.again;
    else if (world->options.none == ENDS)
        score->ran_out = world->over = true;
}

static void take_reply(struct host *host, struct world *world)
{
    struct slice reply = line_reply(&host->line);
    if (host->held > 0 || contains(reply, "<result_ack>"))
        check_acknowledgements(host, world, reply);
    struct slice rest = reply, id = between(&rest, "<hostid>", "</hostid>");
    if (id.at != NULL && !same(id, host->id))
        score_violation(&world->score, "Host %.*s was replaced by host %.*s.", (int)host->id.length,
                        host->id.at, (int)id.length, id.at);
    if (contains(reply, "<result_abort"))
        score_violation(&world->score, "A reply contains a command to abort a result.");
    /* Names and grants are slices of the reply, so the reply is kept. */
    text_swap(&host->line.in, &host->kept);
    reply.at = host->kept.at + host->line.head;
    read_results(host, world, reply);
    if (world->options.uploads)
        read_grants(host, world, reply);
    if (host->held > 0 && host->wanted == 0)
        score_violation(&world->score, "%ld results were sent, and none requested.", host->held);
    if (host->held == 0 && host->wanted > 0)
        take_nothing(host, world, reply);
    world->score.rpcs_ever++;
    if (world->score.counting) {
        world->score.rpcs++;
        world->score.reply_bytes += (double)reply.length;
    }
}

static void take_confirmation(struct host *host, struct world *world)
{
    struct slice reply = line_reply(&host->line);
    host->uploaded++;
    if (!contains(reply, "<status>0</status>")) {
        score_violation(&world->score, "An upload was answered with %.*s", (int)reply.length,
                        reply.at);
        return;
    }
    world->score.uploads_ever++;
    if (world->score.counting)
        world->score.uploads++;
}

void host_take(struct host *host, struct world *world)
{
    static const enum kind_of_exchange KIND[] = {
        [ASKS] = ASKED, [REPORTS] = REPORTED, [UPLOADS] = UPLOADED};
    enum doing did = host->doing;
    host->doing = RESTS;
    host->rest_until = 0.0;
    score_latency(&world->score, KIND[did], now() - host->began);
    if (did == UPLOADS)
        take_confirmation(host, world);
    else
        take_reply(host, world);
    line_rest(&host->line, &world->how);
}
