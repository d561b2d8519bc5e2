/* Preloaded, lets the n-th call of one kind fail in the programs of one role.

   FAIL_ROLE   word in the command line of these programs
   FAIL_CALL   open, read, write, truncate, fsync, stat, rename, link, remove, mkdir or spawn
   FAIL_AT     n, counted over all processes of the role
   FAIL_ERRNO  number of the error
   FAIL_UNDER  only calls on paths with this text count (spawn: all)
   FAIL_COUNT  file of two integers, shared by the processes: the number of calls so far, and the
               number of programs of the role so far */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
    void *shared = mmap(NULL, 2 * sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (shared == MAP_FAILED)
        return;
    at = atoi(getenv("FAIL_AT"));
    error = atoi(getenv("FAIL_ERRNO"));
    call = getenv("FAIL_CALL");
    under = getenv("FAIL_UNDER");
    count = shared;
    count[1]++;
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

/* A disk is not full for whoever only reads. */
static int opens(int directory, const char *path, int flags) {
    if (error == ENOSPC && !(flags & (O_CREAT | O_TRUNC)))
        return 1;
    return !fails_at("open", directory, path);
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
    return opens(AT_FDCWD, path, flags) ? syscall(SYS_openat, AT_FDCWD, path, flags, mode) : -1;
}
int open64(const char *path, int flags, ...) {
    MODE(flags)
    return open(path, flags | O_LARGEFILE, mode);
}
int openat(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return opens(directory, path, flags) ? syscall(SYS_openat, directory, path, flags, mode) : -1;
}
int openat64(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return opens(directory, path, flags) ? syscall(SYS_openat, directory, path, flags, mode) : -1;
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
ssize_t read(int fd, void *data, size_t size) {
    return fails_fd("read", fd) ? -1 : syscall(SYS_read, fd, data, size);
}
ssize_t pread(int fd, void *data, size_t size, off_t offset) {
    return fails_fd("read", fd) ? -1 : syscall(SYS_pread64, fd, data, size, offset);
}
ssize_t pread64(int fd, void *data, size_t size, off64_t offset) {
    return fails_fd("read", fd) ? -1 : syscall(SYS_pread64, fd, data, size, offset);
}
int ftruncate(int fd, off_t size) {
    return fails_fd("truncate", fd) ? -1 : syscall(SYS_ftruncate, fd, size);
}
int ftruncate64(int fd, off64_t size) {
    return fails_fd("truncate", fd) ? -1 : syscall(SYS_ftruncate, fd, size);
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
int unlink(const char *path) {
    return fails("remove", path) ? -1 : syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int unlinkat(int directory, const char *path, int flags) {
    return fails_at("remove", directory, path) ? -1 : syscall(SYS_unlinkat, directory, path, flags);
}
int rmdir(const char *path) {
    return fails("remove", path) ? -1 : syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
int fstatat(int directory, const char *path, struct stat *status, int flags) {
    if (fails_at("stat", directory, path))
        return -1;
    return syscall(SYS_newfstatat, directory, path, status, flags);
}
int fstatat64(int directory, const char *path, struct stat64 *status, int flags) {
    return fstatat(directory, path, (struct stat *)status, flags);
}
int stat(const char *path, struct stat *status) { return fstatat(AT_FDCWD, path, status, 0); }
int stat64(const char *path, struct stat64 *status) { return stat(path, (struct stat *)status); }
int lstat(const char *path, struct stat *status) {
    return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int lstat64(const char *path, struct stat64 *status) { return lstat(path, (struct stat *)status); }
int access(const char *path, int mode) {
    return fails("stat", path) ? -1 : syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

#define REAL(name) \
    static typeof(name) *real; \
    if (!real) \
        real = dlsym(RTLD_NEXT, #name);

DIR *opendir(const char *path) {
    REAL(opendir)
    return opens(AT_FDCWD, path, O_DIRECTORY) ? real(path) : NULL;
}

static __thread int vfork_failed;

pid_t fork(void) {
    REAL(fork)
    if (vfork_failed) {
        vfork_failed = 0;
        errno = error;
        return -1;
    }
    return fails("spawn", NULL) ? -1 : real();
}
/* Python forks where vfork fails: that has to fail too. What vfork does cannot be wrapped, as it
   returns twice. */
pid_t vfork(void) {
    pid_t pid = fork();
    vfork_failed = pid < 0;
    return pid;
}
#define SPAWN(name) \
    int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, \
             const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) { \
        REAL(name) \
        if (fails("spawn", NULL)) \
            return error; \
        return real(pid, path, actions, attributes, argv, envp); \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *data) {
    REAL(pthread_create)
    return fails("spawn", NULL) ? error : real(thread, attributes, start, data);
}
