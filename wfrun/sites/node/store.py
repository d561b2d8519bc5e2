"""The files of a site: sandboxes, and the store to which outputs are committed."""

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    Request = Dict[str, Any]

TAIL_BYTES = 2000
"""Maximum length of a quoted end of a file."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a file system that cannot be written."""


class AttemptError(Exception):
    """An attempt has failed; ``cause`` and ``message`` become those of its outcome."""

    def __init__(self, cause: str, message: str) -> None:
        Exception.__init__(self, message)
        self.cause = cause
        self.message = message


def failure_of(error: Exception) -> AttemptError:
    """The failure of an attempt that an error during its start or its commit means."""
    if isinstance(error, AttemptError):
        return error
    if isinstance(error, OSError) and error.errno in FULL:
        return AttemptError("disk-full", "the site's directory cannot be written: %s" % error)
    return AttemptError("launch-failed", "could not be started: %s" % error)


def inside(name: str) -> str:
    """``name``, a path relative to the sandbox. Raises AttemptError where it leads out of it."""
    if name.startswith("/") or ".." in name.split("/"):
        raise AttemptError("launch-failed", "file name %r leads out of the sandbox" % name)
    return name


def make_parent(path: str) -> None:
    """Make the directory of a path."""
    os.makedirs(os.path.dirname(path), exist_ok=True)


def remove_tree(top: str) -> None:
    """Remove a directory and its contents, as far as permissions allow."""
    try:
        os.rmdir(top)
        return
    except OSError:
        pass
    pending, directories = [top], []
    while pending:
        directory = pending.pop()
        directories.append(directory)
        try:
            os.chmod(directory, 0o700)
            for entry in list(os.scandir(directory)):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    os.unlink(entry.path)
        except OSError:
            continue
    for directory in reversed(directories):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def link_input(stored: str, path: str) -> None:
    """Make a stored file appear in a sandbox: by a hard link, which takes no inode, or else by a
    symbolic link (directories, other file systems)."""
    try:
        os.link(stored, path)
    except OSError as error:
        if error.errno in FULL or isinstance(error, FileExistsError):
            raise
        os.symlink(stored, path)


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``, or raise OSError."""
    while data:
        data = data[os.write(fd, data) :]


def remove(path: str) -> None:
    """Remove a file, a link or a directory; nothing happens if it does not exist."""
    try:
        os.unlink(path)
    except IsADirectoryError:
        remove_tree(path)
    except OSError:
        pass


def refuse_special(path: str) -> None:
    """Raise AttemptError for a pipe, a socket or a device, whose reader might wait for ever."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        text = "its output %r is neither a file nor a directory"
        raise AttemptError("output", text % os.path.basename(path))


def copy_file(source: str, target: str, follow_symlinks: bool = True) -> str:
    """As ``shutil.copy``, but refuses special files."""
    import shutil

    refuse_special(source)
    return shutil.copy(source, target, follow_symlinks=follow_symlinks)


def make_read_only(path: str, status: os.stat_result) -> int:
    """Make a file, or the files in a directory, read-only; returns their size in bytes.

    A file with another name that can be written is replaced by a copy: it may be one of the user's
    own, which would become read-only too, and through which the stored file could be changed.
    """
    if not stat.S_ISDIR(status.st_mode):
        if status.st_nlink > 1 and status.st_mode & 0o222:
            temporary = path + ".wfrun-copy"
            copy_file(path, temporary)
            os.rename(temporary, path)
        os.chmod(path, 0o555 if status.st_mode & 0o111 else 0o444)
        return status.st_size
    size = 0
    for directory, _, names in os.walk(path):
        for name in names:
            member = os.path.join(directory, name)
            status = os.lstat(member)
            if stat.S_ISREG(status.st_mode):
                size += make_read_only(member, status)
    return size


def resolve_link(path: str, site: str) -> None:
    """Replace a symbolic link that is an output by its target: linked if the target is in the
    site's directory ``site``, else copied, since it belongs to somebody else."""
    import shutil

    target = os.path.realpath(path)
    os.unlink(path)
    if os.path.isdir(target):
        shutil.copytree(target, path, symlinks=True, copy_function=copy_file)
        return
    if target.startswith(site + "/"):
        with contextlib.suppress(OSError):
            os.link(target, path)
            return
    copy_file(target, path)


def move_into_store(source: str, destination: str) -> int:
    """Give an output its name in the store by a rename; returns its size in bytes."""
    size = make_read_only(source, os.stat(source))
    try:
        os.rename(source, destination)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR):
            raise
        remove(destination)
        os.rename(source, destination)
    return size


def commit(request: "Request", sandbox: str, store: str) -> "List[Optional[int]]":
    """Move the outputs of a successful attempt into the store; returns their sizes in bytes, None
    for an optional one that was not written.

    Raises AttemptError before anything is moved if a required output is missing.
    """
    outputs = request["outputs"]
    present = [os.path.exists(sandbox + "/" + output["name"]) for output in outputs]
    missing = [
        repr(output["name"])
        for output, there in zip(outputs, present)
        if not there and not output["optional"]
    ]
    if missing:
        raise AttemptError("output", "ended without writing its output %s" % ", ".join(missing))
    # Links first: their targets, which may be outputs too, are still in place.
    for output, there in zip(outputs, present):
        path = sandbox + "/" + output["name"]
        if there:
            refuse_special(path)
        if os.path.islink(path):
            resolve_link(path, os.path.dirname(store))
    return [
        move_into_store(sandbox + "/" + output["name"], store + "/" + output["stored"])
        if there
        else None
        for output, there in zip(outputs, present)
    ]


def refuse_revoked(attempts: str, key: str) -> None:
    """Raise AttemptError for an attempt that was revoked while it ran: another attempt of its task
    may have committed its outputs by now."""
    if os.path.exists(attempts + key + ".revoked"):
        raise AttemptError("lost", "was given up before it ended")


def tail(path: str) -> str:
    """The end of a text file; empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES)).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
