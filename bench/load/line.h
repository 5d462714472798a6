/* One HTTP connection to the server on this machine: a POST, its reply, the next. */
#ifndef LINE_H
#define LINE_H

#include "text.h"

enum progress { WAITING, ANSWERED, BROKEN };

struct line {
    int fd;               /* -1 while there is no connection */
    int number;           /* what epoll calls it */
    bool closing;         /* the server will hang up after this reply */
    struct text out, in;
    size_t sent;
    size_t head, length;  /* of the reply: where its body begins, and how long it is; 0: unknown */
    const char *fault;    /* why it is broken */
};

struct exchange {
    int epoll, port;
    bool fresh;           /* a new connection for each exchange */
};

/* Send a POST; the caller waits for epoll to name the line. */
enum progress line_ask(struct line *line, const struct exchange *how, const char *path,
                       const struct text *body);

/* Go on, now that epoll named the line; when ANSWERED, the reply is `line_reply`. */
enum progress line_go_on(struct line *line);

struct slice line_reply(const struct line *line);

/* The exchange is over: hang up where the line is not kept. */
void line_rest(struct line *line, const struct exchange *how);

void line_close(struct line *line);

#endif
