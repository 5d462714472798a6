/* One HTTP connection to the server on this machine, for consecutive POST requests. */
#ifndef LINE_H
#define LINE_H

#include "text.h"

enum progress { WAITING, ANSWERED, BROKEN };

struct line {
    int fd;               /* -1 without a connection */
    int number;           /* the id in epoll's events */
    bool closing;         /* the server closes the connection after this reply */
    struct text out, in;
    size_t sent;
    size_t head, length;  /* offset and length of the reply's body; 0: unknown */
    const char *fault;    /* the reason if the connection is broken */
};

struct exchange {
    int epoll, port;
    bool fresh;           /* a new connection for each exchange */
};

/* Send a POST; the caller then waits for an event of the line. */
enum progress line_ask(struct line *line, const struct exchange *how, const char *path,
                       const struct text *body);

/* Continue after an event of the line; if ANSWERED, the reply is `line_reply`. */
enum progress line_go_on(struct line *line);

struct slice line_reply(const struct line *line);

/* End the exchange: close the connection unless it is persistent. */
void line_rest(struct line *line, const struct exchange *how);

void line_close(struct line *line);

#endif
