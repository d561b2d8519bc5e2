/* The program's side of the protocol of malleable jobs, for C (see wfrun/malleable.py).
 *
 *     int fd = malleable_join(line);                  // -1: no manager; line: "have N NODE..."
 *     switch (malleable_poll(fd, line, &n)) {         // where the size can change
 *     case 'o': malleable_take(fd, k); break;         // uses the first k of the n offered nodes
 *     case 's': malleable_done(fd, n, "n7 n8"); break; // n nodes, which it uses no more
 *     }                                               // 0: no message; -1: the manager is gone
 *
 * Each line buffer has MALLEABLE_LINE bytes; after an offer it is "offer N NODE...".
 */
#ifndef WFRUN_MALLEABLE_H
#define WFRUN_MALLEABLE_H
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MALLEABLE_LINE 65537

/* Read one line, which has begun. Returns its length without the end, -1 at the end of all. */
static inline int malleable_read(int fd, char *line)
{
    int length = 0;
    while (length < MALLEABLE_LINE - 1) {
        if (read(fd, line + length, 1) != 1)
            return -1;
        if (line[length] == '\n') {
            line[length] = 0;
            return length;
        }
        length++;
    }
    return -1;
}

static inline int malleable_join(char *line)
{
    const char *path = getenv("WFRUN_MALLEABLE");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;
    if (!path || strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) || malleable_read(fd, line) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* 'o' or 's' with the number of nodes, 0 without a message, -1 if the manager is gone. */
static inline int malleable_poll(int fd, char *line, int *count)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    if (poll(&one, 1, 0) <= 0)
        return 0;
    if (malleable_read(fd, line) < 0)
        return -1;
    if (sscanf(line, "offer %d", count) == 1 || sscanf(line, "shrink %d", count) == 1)
        return line[0];
    return -1;
}

static inline int malleable_take(int fd, int count)
{
    return dprintf(fd, "take %d\n", count) < 0 ? -1 : 0;
}

static inline int malleable_done(int fd, int count, const char *nodes)
{
    return dprintf(fd, count ? "done %d %s\n" : "done %d%s\n", count, count ? nodes : "") < 0 ? -1 : 0;
}
#endif
