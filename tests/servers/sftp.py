"""The SFTP part of the faulty server: files of this machine, served with faults.

There is no root directory of its own: paths are those of the machine, relative ones begin at the
server's home, so that commands of ``exec`` see the same files."""

from __future__ import annotations

import contextlib
import os
import posixpath
import time
from typing import TYPE_CHECKING

from paramiko import SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface, SSHException
from paramiko.sftp import (
    SFTP_FAILURE,
    SFTP_NO_SUCH_FILE,
    SFTP_OK,
    SFTP_PERMISSION_DENIED,
)

from tests.servers.faults import Fault, Kind, Operation, Request, changed

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH, Session

NO_SPACE = "No space left on device"


class Files(SFTPServerInterface):
    """Answers the requests of one SFTP channel, one after another, as OpenSSH's server does."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.server: FaultySSH = session.faulty
        self.session = session
        self.message: str | None = None
        """The text of the next failure; None: the usual one of its code."""

    def strike(
        self, operation: Operation, path: str, offset: int = 0, size: int = 0
    ) -> dict[Kind, Fault]:
        """Apply the faults that are the same for all operations; returns all that affect this one.
        Raises OSError for those that fail the request."""
        found = self.server.faults.strike(Request(operation, path, offset, size))
        if "stall" in found:
            self.server.faults.stall(found["stall"])
        if "reset" in found:
            self.session.reset()
            raise ConnectionResetError
        if "slow" in found:
            time.sleep(max(size, 1) / found["slow"].amount)
        if "denied" in found:
            raise PermissionError(13, "Permission denied")
        if "vanish" in found:
            os.unlink(path)
            raise FileNotFoundError(2, "No such file or directory")
        if "no-space" in found:
            self.message = NO_SPACE
        if "no-space" in found or "disk-full" in found:
            raise OSError(28, NO_SPACE)
        return found

    def full(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(str(self.server.home), path))

    def canonicalize(self, path: str) -> str:
        return os.path.realpath(self.full(path))

    def open(self, path: str, flags: int, attr: SFTPAttributes) -> SFTPHandle | int:
        path = self.full(path)
        try:
            self.strike("open", path)
            mode = attr.st_mode if attr.st_mode is not None else 0o666
            return OpenFile(self, path, os.open(path, flags | os.O_CLOEXEC, mode & 0o7777))
        except OSError as error:
            return code_of(error)

    def list_folder(self, path: str) -> list[SFTPAttributes] | int:
        path = self.full(path)
        try:
            self.strike("list", path)
            with os.scandir(path) as entries:
                return [
                    SFTPAttributes.from_stat(entry.stat(follow_symlinks=False), entry.name)
                    for entry in entries
                ]
        except OSError as error:
            return code_of(error)

    def attributes(self, path: str, follow: bool = True) -> SFTPAttributes | int:
        try:
            found = self.strike("stat", path)
            attributes = SFTPAttributes.from_stat(os.stat(path, follow_symlinks=follow))
        except OSError as error:
            return code_of(error)
        if "wrong-size" in found and attributes.st_size is not None:
            attributes.st_size = max(0, attributes.st_size + found["wrong-size"].amount)
        return attributes

    def stat(self, path: str) -> SFTPAttributes | int:
        return self.attributes(self.full(path))

    def lstat(self, path: str) -> SFTPAttributes | int:
        return self.attributes(self.full(path), follow=False)

    def remove(self, path: str) -> int:
        path = self.full(path)
        try:
            self.strike("remove", path)
            os.unlink(path)
        except OSError as error:
            return code_of(error)
        return SFTP_OK

    def rename(self, oldpath: str, newpath: str) -> int:
        """As version 3 of the protocol has it: an existing target is an error."""
        return self._rename(oldpath, newpath, replace=False)

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        return self._rename(oldpath, newpath, replace=True)

    def _rename(self, oldpath: str, newpath: str, replace: bool) -> int:
        oldpath, newpath = self.full(oldpath), self.full(newpath)
        try:
            self.strike("rename", newpath)
            if not replace and os.path.lexists(newpath):
                return SFTP_FAILURE
            os.rename(oldpath, newpath)
        except OSError as error:
            return code_of(error)
        return SFTP_OK

    def mkdir(self, path: str, attr: SFTPAttributes) -> int:
        path = self.full(path)
        try:
            self.strike("mkdir", path)
            os.mkdir(path)
            change(path, attr)
        except OSError as error:
            return code_of(error)
        return SFTP_OK

    def rmdir(self, path: str) -> int:
        path = self.full(path)
        try:
            self.strike("rmdir", path)
            os.rmdir(path)
        except OSError as error:
            return code_of(error)
        return SFTP_OK

    def chattr(self, path: str, attr: SFTPAttributes) -> int:
        path = self.full(path)
        try:
            self.strike("setstat", path)
            change(path, attr)
        except OSError as error:
            return code_of(error)
        return SFTP_OK

    def readlink(self, path: str) -> str | int:
        path = self.full(path)
        try:
            self.strike("readlink", path)
            return os.readlink(path)
        except OSError as error:
            return code_of(error)

    def symlink(self, target_path: str, path: str) -> int:
        path = self.full(path)
        try:
            self.strike("link", path)
            os.symlink(target_path, path)
        except OSError as error:
            return code_of(error)
        return SFTP_OK


class OpenFile(SFTPHandle):
    """An open file."""

    def __init__(self, files: Files, path: str, descriptor: int) -> None:
        super().__init__()
        self.files = files
        self.path = path
        self.descriptor = descriptor

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def read(self, offset: int, length: int) -> bytes | int:
        try:
            found = self.files.strike("read", self.path, offset, length)
            if "short-read" in found:
                length = min(length, found["short-read"].amount)
            data = b"" if "cut-short" in found else os.pread(self.descriptor, length, offset)
            return changed(data) if data and "wrong-bytes" in found else data
        except OSError as error:
            return code_of(error)

    def write(self, offset: int, data: object) -> int:
        assert isinstance(data, bytes)
        try:
            found = self.files.strike("write", self.path, offset, len(data))
            if data and "wrong-bytes" in found:
                data = changed(data)
            while data and "lost-write" not in found:
                count = os.pwrite(self.descriptor, data, offset)
                data, offset = data[count:], offset + count
        except OSError as error:
            return code_of(error)
        return SFTP_OK

    def stat(self) -> SFTPAttributes | int:
        return self.files.attributes(self.path)

    def chattr(self, attr: SFTPAttributes) -> int:
        return self.files.chattr(self.path, attr)


class Subsystem(SFTPServer):
    """Adds texts of our own to failures, which paramiko has no public way for, and the exit status
    that OpenSSH's ``scp`` waits for."""

    def finish_subsystem(self) -> None:
        with contextlib.suppress(OSError, EOFError, SSHException):
            # A message for a channel that is closed would end the client's connection.
            if self.sock is not None and not self.sock.closed:
                self.sock.send_exit_status(0)
        super().finish_subsystem()

    def _send_status(self, request_number: int, code: int, desc: str | None = None) -> None:
        files = self.server
        assert isinstance(files, Files)
        if desc is None and code == SFTP_FAILURE:
            desc, files.message = files.message, None
        super()._send_status(request_number, code, desc)  # type: ignore[misc]


def change(path: str, attr: SFTPAttributes) -> None:
    """Change attributes. paramiko's own function empties a file whose size is set."""
    if attr.st_mode is not None:
        os.chmod(path, attr.st_mode & 0o7777)
    if attr.st_uid is not None and attr.st_gid is not None:
        os.chown(path, attr.st_uid, attr.st_gid)
    if attr.st_atime is not None and attr.st_mtime is not None:
        os.utime(path, (attr.st_atime, attr.st_mtime))
    if attr.st_size is not None:
        os.truncate(path, attr.st_size)


def code_of(error: OSError) -> int:
    """The code of draft-ietf-secsh-filexfer-02, section 7, that OpenSSH answers with, too."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return SFTP_NO_SUCH_FILE
    if isinstance(error, PermissionError):
        return SFTP_PERMISSION_DENIED
    return SFTP_FAILURE
