/* Preloaded into the programs of a site's user, does to them what their environment says.

   CLOCK_OFFSET   the clock is ahead by so many seconds; sleeping, timeouts and the times of files
                  are as they are
   RECORD_DELAY   a rename to exits/….json succeeds at once and is seen so many seconds later, also
                  after the job has ended, as over a slow network file system
   SPOOL_DELAY_MS a rename to launchers/in/… or launchers/out/… succeeds at once and is seen up to so
                  many milliseconds later, each file after a time of its own */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
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

static void rename_now(const char *source, const char *target) {
    syscall(SYS_renameat2, AT_FDCWD, source, AT_FDCWD, target, 0);
}

/* By a process that is nobody's child: it is not ended with the job. */
static int rename_after(const char *source, const char *target, long delay_ms) {
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() == 0) {
            for (int fd = 0; fd < 64; fd++)
                close(fd);
            usleep(delay_ms * 1000);
            rename_now(source, target);
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}

static atomic_int pending;

struct late {
    char *source, *target;
    long delay_ms;
};

static void *rename_late(void *argument) {
    struct late *late = argument;
    usleep(late->delay_ms * 1000);
    rename_now(late->source, late->target);
    free(late->source);
    free(late->target);
    free(late);
    pending--;
    return NULL;
}

/* By a thread, which a launcher does not take for a daemon of its tasks. */
static int rename_in_a_thread(const char *source, const char *target, long delay_ms) {
    struct late *late = malloc(sizeof *late);
    pthread_t thread;
    *late = (struct late){strdup(source), strdup(target), delay_ms};
    pending++;
    if (pthread_create(&thread, NULL, rename_late, late) == 0)
        return pthread_detach(thread);
    rename_late(late);
    return 0;
}

__attribute__((destructor)) static void await_threads(void) {
    while (pending > 0)
        usleep(1000);
}

int rename(const char *source, const char *target) {
    static unsigned seed = 5;
    long delay_s = setting("RECORD_DELAY"), spool_ms = setting("SPOOL_DELAY_MS");
    size_t length = strlen(target);
    int is_record = strstr(target, "/exits/") && length > 5 && !strcmp(target + length - 5, ".json");
    if (delay_s && is_record)
        return rename_after(source, target, delay_s * 1000);
    if (spool_ms && strstr(target, "/launchers/in/"))
        return rename_after(source, target, rand_r(&seed) % spool_ms);
    if (spool_ms && strstr(target, "/launchers/out/"))
        return rename_in_a_thread(source, target, rand_r(&seed) % spool_ms);
    return syscall(SYS_renameat2, AT_FDCWD, source, AT_FDCWD, target, 0);
}
