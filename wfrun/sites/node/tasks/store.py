"""Operations on files of sandboxes and of the store."""

import contextlib
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from wfrun.sites.node.tasks.limits import is_setback
else:
    from limits import is_setback

TAIL_BYTES = 2000
"""Maximum length of ``tail``, in bytes."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a file system that is full or read-only."""


class AttemptError(Exception):
    """An attempt has failed; ``cause`` and ``message`` become those of its outcome."""

    def __init__(self, cause: str, message: str) -> None:
        Exception.__init__(self, message)
        self.cause = cause
        self.message = message


def failure_of(error: Exception) -> AttemptError:
    """Convert an error during the start or the commit of an attempt into its failure."""
    if isinstance(error, AttemptError):
        return error
    if isinstance(error, OSError) and error.errno in FULL:
        return AttemptError("disk-full", "the site's directory cannot be written: %s" % error)
    if is_setback(error):
        return AttemptError("node", "its node could not start it or keep its outputs: %s" % error)
    return AttemptError("launch-failed", "could not be started: %s" % error)


def inside(name: str) -> str:
    """Return ``name``, a path relative to the sandbox. Raises AttemptError if it is absolute or has
    ``..``."""
    if name.startswith("/") or ".." in name.split("/"):
        raise AttemptError("launch-failed", "file name %r leads out of the sandbox" % name)
    return name


def mode_of(path: str, links: bool = True) -> int:
    """Type and permissions of a file; 0 if it is absent or cannot be reached. With ``links``
    symbolic links are followed. Raises OSError after a setback, while os.path.exists() would return
    False, and the task would fail."""
    try:
        return os.stat(path, follow_symlinks=links).st_mode
    except (OSError, ValueError) as error:  # ValueError: the name has a NUL
        if is_setback(error):
            raise
        return 0


def make_parent(path: str) -> None:
    """Make the parent directory of a path, if it does not exist."""
    os.makedirs(os.path.dirname(path), exist_ok=True)


def remove_tree(top: str) -> None:
    """Delete a directory and its contents, as far as possible. Raises no OSError."""
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
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            # An entry may stay, as one that is immutable; the others go.
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    os.unlink(entry.path)
    for directory in reversed(directories):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def link_input(stored: str, path: str) -> None:
    """Link a stored file or directory into a sandbox: by a hard link, which takes no inode, or if
    that fails (directories, other file systems) by a symbolic link. Raises OSError."""
    try:
        os.link(stored, path)
    except OSError as error:
        if error.errno in FULL or isinstance(error, FileExistsError):
            raise
        os.symlink(stored, path)


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``, in several calls if necessary. Raises OSError."""
    while data:
        data = data[os.write(fd, data) :]


def remove(path: str) -> bool:
    """Delete a file, a symbolic link or a directory tree; returns whether it is gone."""
    try:
        os.unlink(path)
    except IsADirectoryError:
        remove_tree(path)
        return not os.path.lexists(path)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return True


def refuse_revoked(attempts: str, key: str) -> None:
    """Raise AttemptError if an attempt has been revoked: another attempt of its task may have
    committed outputs by now."""
    if mode_of(attempts + key + ".revoked"):
        raise AttemptError("lost", "was given up before it ended")


def tail(path: str) -> str:
    """The last TAIL_BYTES of a text file; empty if it cannot be read."""
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
