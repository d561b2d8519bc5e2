"""A host of the test network: a machine's own view of users, names, processes and /tmp, with an
SSH server and, where installed, GridFTP servers."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import gridftp, processes
from tests.testbed.gridftp import Scheme

USER = "user"
UID = 60100
"""In none of Debian's ranges of accounts; the machine has no such user."""

PORTS: dict[Scheme, int] = {"ftp": 2121, "gsiftp": 2811, "sshftp": 22}

SSHD = """\
ListenAddress {address}
HostKey /run/host/host_key
PidFile none
AuthorizedKeysFile /run/host/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
MaxStartups 100
Subsystem sftp internal-sftp
"""

# Runs as the first process of the host's namespaces; mounts are seen within them alone.
START = """\
set -e
hostname {name}
mount -t tmpfs tmpfs /run
mkdir /run/sshd /run/host /run/gridftp
mount --bind {directory} /run/host
mount --bind {shared}/gridftp /run/gridftp
mount --bind {shared}/etc /etc
mount -t tmpfs -o mode=755 tmpfs /home
mkdir /home/{user}
mount --bind /run/host/home /home/{user}
mount -t tmpfs -o mode=1777 tmpfs /tmp
cd /
exec >>/run/host/log 2>&1
/usr/sbin/sshd -D -e -f /run/host/sshd_config &
{gridftp}
# Reaps orphans, as the first process of a system does; the one that never ends keeps it waiting.
sleep infinity &
wait
"""


@dataclass(frozen=True, slots=True)
class Host:
    """A host; its files are seen from outside below ``home``."""

    name: str
    address: str
    directory: Path

    @property
    def home(self) -> Path:
        """The home of ``user`` as this machine sees it; the host itself sees ``/home/user``."""
        return self.directory / "home"

    def url(self, path: str, scheme: Scheme) -> str:
        """The URL of a file at the host; a relative path begins at the user's home."""
        user = f"{USER}@" if scheme == "sshftp" else ""
        return f"{scheme}://{user}{self.address}:{PORTS[scheme]}{Path('/home') / USER / path}"

    def prepare(self, shared: Path, with_gridftp: bool) -> None:
        """Write the configuration of its servers. ``shared`` has what all hosts have alike."""
        self.home.mkdir(parents=True)
        make_key(self.directory / "host_key")
        (self.directory / "sshd_config").write_text(SSHD.format(address=self.address))
        (self.directory / "gridmap").write_text(gridftp.gridmap(USER))
        text = START.format(
            name=self.name,
            directory=self.directory,
            shared=shared,
            user=USER,
            gridftp="\n".join(self._gridftp_commands() if with_gridftp else ()),
        )
        (self.directory / "start").write_text(text)

    def prepare_user(self, authorized: str, with_gridftp: bool) -> None:
        """Write what an empty home needs, and who may log in."""
        (self.directory / "authorized_keys").write_text(authorized)
        if with_gridftp:
            gridftp.make_over_ssh(self.home, self.address)
        for path in (self.home, *self.home.rglob("*")):
            shutil.chown(path, UID, UID)
        self.home.chmod(0o700)

    def _gridftp_commands(self) -> list[str]:
        inside = Path("/run/host")
        environment = gridftp.server_environment(Path("/run/gridftp"), inside / "gridmap")
        settings = " ".join(f"{name}={value}" for name, value in environment.items())
        secure = gridftp.argv_of(PORTS["gsiftp"], self.address, inside / "gsiftp.log", None)
        plain = gridftp.argv_of(PORTS["ftp"], self.address, inside / "ftp.log", USER)
        return [f"{settings} {' '.join(secure)} &", f"{' '.join(plain)} &"]

    def log(self) -> str:
        """The end of what its servers said."""
        log = self.directory / "log"
        return log.read_text(errors="replace")[-1000:] if log.exists() else "it has none"

    def known_hosts_line(self) -> str:
        words = (self.directory / "host_key.pub").read_text().split()[:2]
        return f"{self.name},{self.address} {' '.join(words)}\n"


def make_etc(etc: Path, hosts: str) -> None:
    """Make an /etc like this machine's, with the user and these host names.

    A copy, since files of this machine's /etc are replaced when its accounts change, and the kernel
    then drops what is mounted on them in other namespaces.
    """
    # A file that vanishes meanwhile, such as a lock, is no loss.
    processes.run(["cp", "--archive", "/etc", str(etc)], check=False)
    (etc / "hosts").write_text(hosts)
    for name, line in (
        ("passwd", f"{USER}:x:{UID}:{UID}::/home/{USER}:/bin/bash\n"),
        ("group", f"{USER}:x:{UID}:\n"),
        # A password that nothing matches; with '!' the account would be locked.
        ("shadow", f"{USER}:*:1::::::\n"),
    ):
        # First, before a user of that name whom the machine may have.
        (etc / name).write_text(line + (etc / name).read_text())


def make_key(path: Path) -> None:
    processes.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "network", "-f", str(path)])


def public(key: Path) -> str:
    return key.with_suffix(".pub").read_text()
