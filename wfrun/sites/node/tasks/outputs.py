"""The commit: moves the outputs of a successful attempt from its sandbox to the store.

Committed outputs are self-contained, since they may be copied to other machines: a symbolic link
that is an output, or that leads out of one, is replaced by its target.
"""

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Optional

    from wfrun.sites.node.tasks.limits import is_setback
    from wfrun.sites.node.tasks.store import AttemptError, mode_of, remove, write_all

    Request = Dict[str, Any]
else:
    from limits import is_setback
    from store import AttemptError, mode_of, remove, write_all

COPY_BYTES = 1 << 20
"""Size in bytes of a read while a file is copied."""
MAX_LINKS = 40
"""Maximum number of symbolic links followed in one path, as in path_resolution(7)."""
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR)
"""Errors of rename(2) onto an existing directory, or of a directory onto an existing file."""


def commit(
    request: "Request", sandbox: str, store: str, committed: "Dict[str, int]"
) -> "List[Optional[int]]":
    """Move the outputs of a successful attempt into the store. Returns the size of each output in
    bytes, None for an optional one that was not written.

    ``committed`` gets the size of each moved output, by its name in the store. After OSError, call
    this again with that dict: outputs in it are not moved again. Raises AttemptError, before
    anything is moved, if a required output is missing or an output cannot be stored.
    """
    outputs = request["outputs"]
    missing = []
    paths: "Dict[str, str]" = {}
    for output in outputs:
        path = sandbox + "/" + output["name"]
        if output["stored"] in committed:
            continue
        if mode_of(path):
            paths[output["stored"]] = path
        elif not output["optional"]:
            missing.append(repr(output["name"]))
    if missing:
        raise AttemptError("output", "ended without writing its output %s" % ", ".join(missing))
    # Links first: their targets, which may be outputs too, are still in place.
    for number, (stored, path) in enumerate(paths.items()):
        paths[stored] = own(path, sandbox, os.path.dirname(store), number)
    for stored, path in paths.items():
        committed[stored] = move_into_store(path, store + "/" + stored)
    return [committed.get(output["stored"]) for output in outputs]


def own(path: str, sandbox: str, site: str, number: int) -> str:
    """Make an output independent of files outside the sandbox; returns its new path. ``site`` is
    the site's directory. ``number`` must differ for each output of a sandbox. Raises AttemptError,
    OSError."""
    refuse_special(path)
    if is_link(path):
        resolve_link(path, site)
    elif not is_in(real_path(path), real_path(sandbox)):
        # Behind a link of the task: a rename would take the file away from its owner.
        copy = "%s/.wfrun-output-%d" % (sandbox, number)
        remove(copy)
        copy_any(path, copy)
        return copy
    if stat.S_ISDIR(mode_of(path)):
        for directory, names, others in os.walk(path, onerror=refuse_setback):
            for name in names + others:
                member = os.path.join(directory, name)
                if is_link(member) and not stays_inside(path, member):
                    replace_link(path, member)
    return path


def is_link(path: str) -> bool:
    """Whether a path names a symbolic link."""
    return stat.S_ISLNK(mode_of(path, links=False))


def real_path(path: str) -> str:
    """The path of an existing file without symbolic links. Raises OSError, also for a link that
    cannot be read, which os.path.realpath() would treat as a file."""
    fd = os.open(path, os.O_PATH)
    try:
        return os.readlink("/proc/self/fd/%d" % fd)
    finally:
        os.close(fd)


def is_in(path: str, directory: str) -> bool:
    """Whether ``path`` is ``directory`` or inside of it; both are normalized."""
    return (path + "/").startswith(directory + "/")


def stays_inside(top: str, path: str) -> bool:
    """Whether the symbolic link ``path`` in the directory ``top`` leads to a path in ``top``, even
    after ``top`` is moved. The path need not exist."""
    where = os.path.relpath(os.path.dirname(path), top)
    place = [] if where == "." else where.split("/")
    ahead = [os.path.basename(path)]
    links = 0
    while ahead:
        part = ahead.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            if not place:
                return False
            place.pop()
            continue
        here = "/".join([top, *place, part])
        if not is_link(here):
            place.append(part)
            continue
        text = os.readlink(here)
        links += 1
        if text.startswith("/") or links > MAX_LINKS:
            return False
        ahead = text.split("/") + ahead
    return True


def replace_link(top: str, path: str) -> None:
    """Replace a symbolic link that leads out of the directory ``top`` by a copy of its target.
    Raises AttemptError if its target is no regular file."""
    if not stat.S_ISREG(mode_of(path)):
        text = "its output %r has the link %r, which leads out of it to %s: copy what is needed"
        what = "a directory" if stat.S_ISDIR(mode_of(path)) else "nothing"
        inner = os.path.relpath(path, top)
        raise AttemptError("output", text % (os.path.basename(top), inner, what))
    temporary = path + ".wfrun-copy"
    copy_file(path, temporary)
    os.rename(temporary, path)


def resolve_link(path: str, site: str) -> None:
    """Replace an output that is a symbolic link by a hard link to its target, if the target is a
    file in the site's directory ``site``. Else replace it by a copy, since the target is not ours.
    """
    target = real_path(path)
    temporary = path + ".wfrun-copy"
    remove(temporary)
    if stat.S_ISDIR(mode_of(target)):
        if is_in(real_path(os.path.dirname(path)), target):
            text = "its output %r is a link to a directory that it is in"
            raise AttemptError("output", text % os.path.basename(path))
        copy_tree(target, temporary)
        os.unlink(path)
    else:
        try:
            if not is_in(target, site):
                raise OSError(errno.EXDEV, "it is not the site's")
            os.link(target, temporary)
        except OSError:
            copy_file(target, temporary)
    os.rename(temporary, path)


def copy_any(source: str, target: str) -> None:
    """Copy a file or a directory."""
    if stat.S_ISDIR(mode_of(source)):
        copy_tree(real_path(source), target)
    else:
        copy_file(source, target)


def copy_tree(source: str, target: str, top: str = "") -> None:
    """Copy the directory ``source``, which is ``top`` or inside of it. Symbolic links that lead out
    of ``top`` are replaced by copies of their targets."""
    top = top or source
    os.mkdir(target)
    for name in os.listdir(source):
        path, copy = source + "/" + name, target + "/" + name
        if is_link(path) and stays_inside(top, path):
            os.symlink(os.readlink(path), copy)
        elif is_link(path):
            os.symlink(os.path.realpath(path), copy)
            replace_link(target, copy)
        elif stat.S_ISDIR(mode_of(path)):
            copy_tree(path, copy, top)
        else:
            copy_file(path, copy)


def refuse_setback(error: OSError) -> None:
    """Raise a setback; ignore other errors, so that unreadable directories are left as they
    are."""
    if is_setback(error):
        raise error


def refuse_special(path: str) -> None:
    """Raise AttemptError for a pipe, a socket or a device, whose reader might wait for ever."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        text = "its output %r is neither a file nor a directory"
        raise AttemptError("output", text % os.path.basename(path))


def copy_file(source: str, target: str) -> None:
    """Copy the contents and the permissions of a file; replaces ``target``. Raises AttemptError for
    a special file."""
    refuse_special(source)
    remove(target)
    with open(source, "rb", buffering=0) as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            while True:
                data = os.read(file.fileno(), COPY_BYTES)
                if not data:
                    break
                write_all(fd, data)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)


def make_read_only(path: str, status: os.stat_result) -> int:
    """Make a file, or all files in a directory, read-only; returns their total size in bytes.

    A writable file with several hard links is first replaced by a copy: another link may be the
    user's own file, which would become read-only too, and by which the user could change the store.
    """
    if not stat.S_ISDIR(status.st_mode):
        if status.st_nlink > 1 and status.st_mode & 0o222:
            temporary = path + ".wfrun-copy"
            copy_file(path, temporary)
            os.rename(temporary, path)
        os.chmod(path, 0o555 if status.st_mode & 0o111 else 0o444)
        return status.st_size
    size = 0
    for directory, _, names in os.walk(path, onerror=refuse_setback):
        for name in names:
            member = os.path.join(directory, name)
            status = os.lstat(member)
            if stat.S_ISREG(status.st_mode):
                size += make_read_only(member, status)
    return size


def move_into_store(source: str, destination: str) -> int:
    """Make an output read-only and rename it to ``destination``, where it replaces an existing file
    or directory; returns its size in bytes."""
    size = make_read_only(source, os.stat(source))
    status = os.stat(source)
    try:
        os.rename(source, destination)
    except OSError as error:
        if error.errno in OCCUPIED:
            remove(destination)
            os.rename(source, destination)
        elif error.errno != errno.ENOENT or not is_file_of(destination, status):
            raise
    return size


def is_file_of(path: str, status: os.stat_result) -> bool:
    """Whether ``path`` is the file with this status. Then a rename to ``path`` that raised ENOENT
    has succeeded: NFS lost the first reply, and the repeated request failed."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.stat(path), status)
    return False
