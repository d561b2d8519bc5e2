/* Preloaded into the programs of a site's user, does to them what their environment says.

   CLOCK_OFFSET   the clock is ahead by so many seconds; sleeping, timeouts and the times of files
                  are as they are
   RECORD_DELAY   a rename to exits/….json succeeds at once and is seen so many seconds later, also
                  after the job has ended, as over a slow network file system */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long setting(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += setting("CLOCK_OFFSET");
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

int rename(const char *source, const char *target) {
    long delay_s = setting("RECORD_DELAY");
    size_t length = strlen(target);
    int is_record = strstr(target, "/exits/") && length > 5 && !strcmp(target + length - 5, ".json");
    if (!delay_s || !is_record)
        return syscall(SYS_renameat2, AT_FDCWD, source, AT_FDCWD, target, 0);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() == 0) { /* It is nobody's child, and is not ended with the job. */
            for (int fd = 0; fd < 64; fd++)
                close(fd);
            sleep(delay_s);
            syscall(SYS_renameat2, AT_FDCWD, source, AT_FDCWD, target, 0);
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}
