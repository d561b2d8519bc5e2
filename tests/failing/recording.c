/* Preloaded, records every change to files below TRACE_UNDER in the file TRACE, in order over all
   processes: a line "op inode offset-or-mode size length length", two paths, and the bytes written.

   c create   w write   t truncate   f sync   m make directory   r rename   l link   s symbolic link
   u remove   d remove directory */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int trace = -1;
static const char *under;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static const char *file;

static void open_trace(void) {
    int fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    trace = fcntl(fd, F_DUPFD_CLOEXEC, 700);
    syscall(SYS_close, fd);
}

__attribute__((constructor)) static void prepare(void) {
    static char name[4096];
    under = getenv("TRACE_UNDER");
    if (!getenv("TRACE") || !under)
        return;
    file = strncpy(name, getenv("TRACE"), sizeof name - 1);
    open_trace();
}

/* A child has the file description of its parent, and would have its lock. */
static void lock(void) {
    pthread_mutex_lock(&mutex);
    if (trace >= 0 && fcntl(trace, F_GETFD) < 0)
        open_trace(); /* A daemon closes what it was started with. */
    if (trace >= 0)
        flock(trace, LOCK_EX);
}

static long unlock(long result) {
    int error = errno;
    if (trace >= 0)
        flock(trace, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
}

static const char *full(int directory, const char *path, char *out) {
    char place[64];
    if (path[0] == '/')
        return strncpy(out, path, 4095);
    snprintf(place, sizeof place, directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d",
             directory);
    long length = syscall(SYS_readlinkat, AT_FDCWD, place, out, 2000);
    snprintf(out + (length < 0 ? 0 : length), 2000, path[0] ? "/%s" : "", path);
    return out;
}

static void put(char op, long inode, long offset, long size, const char *one, const char *two,
                const void *data) {
    char line[128];
    if (trace < 0 || !(strstr(one, under) || strstr(two, under)))
        return;
    int length = snprintf(line, sizeof line, "%c %ld %ld %ld %zu %zu\n", op, inode, offset, size,
                          strlen(one), strlen(two));
    struct iovec parts[] = {{line, length}, {(char *)one, strlen(one)}, {(char *)two, strlen(two)},
                            {(void *)data, data ? size : 0}};
    syscall(SYS_writev, trace, parts, 4);
}

static long inode_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : (long)status.st_ino;
}

static void put_fd(char op, int fd, long offset, long size, const void *data) {
    char path[4096] = "";
    if (trace >= 0)
        put(op, inode_of(fd), offset, size, full(fd, "", path), "", data);
}

static int open_at(int directory, const char *path, int flags, mode_t mode) {
    char name[4096] = "";
    lock();
    int fd = syscall(SYS_openat, directory, path, flags, mode);
    if (fd >= 0 && trace >= 0 && (flags & (O_CREAT | O_TRUNC))) {
        put('c', inode_of(fd), mode, 0, full(directory, path, name), "", NULL);
        if (flags & O_TRUNC)
            put_fd('t', fd, 0, 0, NULL);
    }
    return unlock(fd);
}

#define MODE \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);

int open(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags, mode); }
int openat(int fd, const char *path, int flags, ...) { MODE return open_at(fd, path, flags, mode); }
int openat64(int fd, const char *path, int flags, ...) { MODE return open_at(fd, path, flags, mode); }
int creat(const char *path, mode_t mode) {
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

ssize_t write(int fd, const void *data, size_t size) {
    struct stat status;
    if (trace < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode))
        return syscall(SYS_write, fd, data, size);
    lock();
    long written = syscall(SYS_write, fd, data, size);
    if (written > 0)
        put_fd('w', fd, lseek(fd, 0, SEEK_CUR) - written, written, data);
    return unlock(written);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    lock();
    long written = syscall(SYS_pwrite64, fd, data, size, offset);
    if (written > 0)
        put_fd('w', fd, offset, written, data);
    return unlock(written);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return pwrite64(fd, data, size, offset);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    long sum = 0;
    for (int i = 0; i < count; i++) {
        long written = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (written < 0)
            return sum ? sum : -1;
        sum += written;
        if ((size_t)written < parts[i].iov_len)
            break;
    }
    return sum;
}
/* Whoever asks falls back to reading and writing. */
ssize_t copy_file_range(int a, off64_t *b, int c, off64_t *d, size_t e, unsigned f) {
    errno = ENOSYS;
    return -1;
}
int ftruncate(int fd, off_t size) {
    lock();
    int failed = syscall(SYS_ftruncate, fd, size);
    if (!failed)
        put_fd('t', fd, 0, size, NULL);
    return unlock(failed);
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int fsync(int fd) {
    lock();
    int failed = syscall(SYS_fsync, fd);
    if (!failed)
        put_fd('f', fd, 0, 0, NULL);
    return unlock(failed);
}
int fdatasync(int fd) { return fsync(fd); }

static int change(char op, int a, const char *from, int b, const char *to, long mode,
                  int failed) {
    char one[4096] = "", two[4096] = "";
    if (!failed && trace >= 0)
        put(op, 0, mode, 0, from ? full(a, from, one) : "", to ? full(b, to, two) : "", NULL);
    return unlock(failed);
}

int renameat(int a, const char *from, int b, const char *to) {
    lock();
    return change('r', a, from, b, to, 0, syscall(SYS_renameat2, a, from, b, to, 0));
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) {
    lock();
    return change('l', a, from, b, to, 0, syscall(SYS_linkat, a, from, b, to, flags));
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int symlinkat(const char *to, int a, const char *path) {
    char name[4096] = "";
    lock();
    int failed = syscall(SYS_symlinkat, to, a, path);
    if (!failed && trace >= 0)
        put('s', 0, 0, 0, full(a, path, name), to, NULL);
    return unlock(failed);
}
int symlink(const char *to, const char *path) { return symlinkat(to, AT_FDCWD, path); }
int mkdirat(int a, const char *path, mode_t mode) {
    lock();
    return change('m', a, path, 0, NULL, mode, syscall(SYS_mkdirat, a, path, mode));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int unlinkat(int a, const char *path, int flags) {
    lock();
    char op = flags & AT_REMOVEDIR ? 'd' : 'u';
    return change(op, a, path, 0, NULL, 0, syscall(SYS_unlinkat, a, path, flags));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) { return unlink(path); }
