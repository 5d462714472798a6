#define _GNU_SOURCE
#include "line.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const size_t PIECE = 65536;

void line_close(struct line *line)
{
    if (line->fd < 0)
        return;
    /* Close by RST: thousands of connections a second in TIME_WAIT would use up all ports. */
    struct linger at_once = {1, 0};
    setsockopt(line->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(line->fd);
    line->fd = -1;
}

static enum progress broken(struct line *line, const char *fault)
{
    line->fault = fault;
    line_close(line);
    return BROKEN;
}

static bool open_connection(struct line *line, const struct exchange *how)
{
    line->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (line->fd < 0)
        return false;
    int yes = 1;
    setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct sockaddr_in server = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)how->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    if (connect(line->fd, (struct sockaddr *)&server, sizeof server) < 0 && errno != EINPROGRESS)
        return false;
    struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLET, {.u32 = (uint32_t)line->number}};
    return epoll_ctl(how->epoll, EPOLL_CTL_ADD, line->fd, &event) == 0;
}

/* Send the rest of the request; return false if the connection is broken. */
static bool send_rest(struct line *line)
{
    while (line->sent < line->out.length) {
        ssize_t done = send(line->fd, line->out.at + line->sent, line->out.length - line->sent,
                            MSG_NOSIGNAL);
        if (done < 0)
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
        line->sent += (size_t)done;
    }
    return true;
}

/* Find the end of the head and the length of the body; return false for an invalid head. */
static bool read_head(struct line *line)
{
    char *end = memmem(line->in.at, line->in.length, "\r\n\r\n", 4);
    if (end == NULL)
        return true;
    *end = '\0';
    if (strncmp(line->in.at, "HTTP/1.1 200", 12) != 0) {
        line->fault = "The status of a reply is not 200";
        return false;
    }
    const char *length = strcasestr(line->in.at, "\ncontent-length:");
    if (length == NULL) {
        line->fault = "A reply has no Content-Length";
        return false;
    }
    line->length = strtoul(length + 16, NULL, 10);
    line->closing = strcasestr(line->in.at, "\nconnection: close") != NULL;
    line->head = (size_t)(end - line->in.at) + 4;
    return true;
}

enum progress line_ask(struct line *line, const struct exchange *how, const char *path,
                       const struct text *body)
{
    line->out.length = line->in.length = line->sent = line->head = line->length = 0;
    line->closing = false;
    text_print(&line->out,
               "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
               "User-Agent: BOINC client (x86_64-pc-linux-gnu 7.20.5)\r\nAccept: */*\r\n"
               "%sContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n\r\n",
               path, how->port, how->fresh ? "Connection: close\r\n" : "", body->length);
    text_add(&line->out, whole(body));
    if (line->fd < 0 && !open_connection(line, how))
        return broken(line, "The server cannot be reached");
    return send_rest(line) ? WAITING : broken(line, "A request could not be sent");
}

enum progress line_go_on(struct line *line)
{
    if (!send_rest(line))
        return broken(line, "A request could not be sent");
    for (;;) {
        if (line->in.room < line->in.length + PIECE) {
            line->in.room = line->in.length + PIECE;
            line->in.at = more_memory(line->in.at, line->in.room);
        }
        ssize_t more = recv(line->fd, line->in.at + line->in.length,
                            line->in.room - line->in.length, 0);
        if (more < 0) {
            if (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)
                break;
            return broken(line, "A connection broke");
        }
        if (more == 0)
            return broken(line, "The server closed the connection during an exchange");
        line->in.length += (size_t)more;
        if (line->head == 0 && !read_head(line))
            return broken(line, line->fault);
        if (line->head > 0 && line->in.length >= line->head + line->length)
            return ANSWERED;
    }
    return WAITING;
}

struct slice line_reply(const struct line *line)
{
    return (struct slice){line->in.at + line->head, line->length};
}

void line_rest(struct line *line, const struct exchange *how)
{
    if (how->fresh || line->closing)
        line_close(line);
}
