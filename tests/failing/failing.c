/* Preloaded, lets the n-th call of one kind fail in the programs of one role.

   FAIL_ROLE   word in the command line of these programs
   FAIL_CALL   open, write, fsync, rename, link, mkdir or spawn
   FAIL_AT     n, counted over all processes of the role
   FAIL_ERRNO  number of the error
   FAIL_UNDER  only calls on paths with this text count (spawn: all)
   FAIL_COUNT  file of four bytes, shared by the processes: the number of calls so far */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int *count;
static int at, error;
static const char *call, *under;

__attribute__((constructor)) static void prepare(void) {
    const char *role = getenv("FAIL_ROLE"), *file = getenv("FAIL_COUNT");
    static char line[1 << 16];
    if (!role || !file)
        return;
    int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY, 0);
    long length = syscall(SYS_read, fd, line, sizeof line);
    syscall(SYS_close, fd);
    if (length <= 0 || !memmem(line, length, role, strlen(role)))
        return;
    fd = syscall(SYS_openat, AT_FDCWD, file, O_RDWR, 0);
    if (fd < 0)
        return;
    void *shared = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (shared == MAP_FAILED)
        return;
    at = atoi(getenv("FAIL_AT"));
    error = atoi(getenv("FAIL_ERRNO"));
    call = getenv("FAIL_CALL");
    under = getenv("FAIL_UNDER");
    count = shared;
}

static int fails(const char *name, const char *path) {
    if (!count || strcmp(call, name) || (path && !strstr(path, under)))
        return 0;
    if (++*count != at)
        return 0;
    errno = error;
    return 1;
}

static int fails_at(const char *name, int directory, const char *path) {
    char place[64], full[8192];
    if (!count || path[0] == '/' || directory == AT_FDCWD)
        return fails(name, path);
    snprintf(place, sizeof place, "/proc/self/fd/%d", directory);
    long length = syscall(SYS_readlinkat, AT_FDCWD, place, full, sizeof full - 1);
    full[length < 0 ? 0 : length] = 0;
    return fails(name, full);
}

static int fails_fd(const char *name, int fd) {
    return count && fails_at(name, fd, "");
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return fails("open", path) ? -1 : syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE(flags)
    return fails("open", path) ? -1 : syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return fails_at("open", directory, path) ? -1 : syscall(SYS_openat, directory, path, flags, mode);
}
int openat64(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return fails_at("open", directory, path) ? -1 : syscall(SYS_openat, directory, path, flags, mode);
}
ssize_t write(int fd, const void *data, size_t size) {
    return fails_fd("write", fd) ? -1 : syscall(SYS_write, fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return fails_fd("write", fd) ? -1 : syscall(SYS_pwrite64, fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    return fails_fd("write", fd) ? -1 : syscall(SYS_pwrite64, fd, data, size, offset);
}
int fsync(int fd) { return fails_fd("fsync", fd) ? -1 : syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return fails_fd("fsync", fd) ? -1 : syscall(SYS_fdatasync, fd); }
int rename(const char *from, const char *to) {
    return fails("rename", to) ? -1 : syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int one, const char *from, int other, const char *to) {
    return fails_at("rename", other, to) ? -1 : syscall(SYS_renameat2, one, from, other, to, 0);
}
int link(const char *from, const char *to) {
    return fails("link", to) ? -1 : syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int linkat(int one, const char *from, int other, const char *to, int flags) {
    return fails_at("link", other, to) ? -1 : syscall(SYS_linkat, one, from, other, to, flags);
}
int mkdir(const char *path, mode_t mode) {
    return fails("mkdir", path) ? -1 : syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
int mkdirat(int directory, const char *path, mode_t mode) {
    return fails_at("mkdir", directory, path) ? -1 : syscall(SYS_mkdirat, directory, path, mode);
}
pid_t fork(void) {
    static pid_t (*real)(void);
    if (!real)
        real = dlsym(RTLD_NEXT, "fork");
    return fails("spawn", NULL) ? -1 : real();
}
/* A wrapper of vfork cannot return twice. */
pid_t vfork(void) { return fork(); }
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) {
    static typeof(posix_spawn) *real;
    if (!real)
        real = dlsym(RTLD_NEXT, "posix_spawn");
    if (fails("spawn", NULL))
        return error;
    return real(pid, path, actions, attributes, argv, envp);
}
