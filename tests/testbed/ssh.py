"""An SSH server for each site, with a host key, a port and a user of its own, and the files that
a client needs to log in. Tried with OpenSSH 9.2 of Debian 12."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
from pathlib import Path

from tests.testbed import processes
from tests.testbed.layout import Layout, Server, Site

SERVER = """\
ListenAddress 127.0.0.1:{port}
HostKey {key}
PidFile none
AllowUsers {user}
AuthorizedKeysFile {authorized}
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
PrintMotd no
Subsystem sftp internal-sftp
SetEnv {environment}
"""
CLIENT = """\
Host {name}
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {client}/id_ed25519
    IdentitiesOnly yes
    UserKnownHostsFile {client}/known_hosts
    StrictHostKeyChecking yes
"""
PROFILE = """\
# Programs of the user's own come first: a test puts misbehaving ones there.
{exports}PATH="$HOME/bin:$PATH"; export PATH
"""


def prepare(layout: Layout) -> None:
    """Make users, keys and configurations."""
    layout.client.mkdir(mode=0o700, exist_ok=True)
    key = layout.client / "id_ed25519"
    _make_key(key)
    authorized = layout.directory / "ssh" / "authorized_keys"
    authorized.parent.mkdir(exist_ok=True)
    shutil.copy(key.with_suffix(".pub"), authorized)
    authorized.chmod(0o644)
    known = []
    for site in layout.sites:
        _make_user(site)
        _write_profile(layout, site)
        host_key = authorized.parent / f"{site.name}_key"
        _make_key(host_key)
        known.append(f"[127.0.0.1]:{site.port} {host_key.with_suffix('.pub').read_text()}")
        if not _conf(layout, site).exists():
            configure(layout, site)
    (layout.client / "known_hosts").write_text("".join(known))
    hosts = (
        CLIENT.format(name=site.name, port=site.port, user=site.user, client=layout.client)
        for site in layout.sites
    )
    layout.ssh_config.write_text("\n".join(hosts))
    _give_to_caller(layout.client)


def configure(layout: Layout, site: Site, extra: dict[str, str] | None = None) -> bool:
    """Write the server's configuration. Its users' sessions have ``extra`` in their environment
    besides what belongs to the site. Returns whether it is another one now, which a server that
    runs has to be started again to see."""
    environment = {
        **layout.environment(site),
        "PATH": f"{site.home}/bin:/usr/local/bin:/usr/bin:/bin",
        **(extra or {}),
    }
    path = _conf(layout, site)
    text = SERVER.format(
        port=site.port,
        key=layout.directory / "ssh" / f"{site.name}_key",
        user=site.user,
        authorized=layout.directory / "ssh" / "authorized_keys",
        environment=" ".join(f"{name}={value}" for name, value in environment.items()),
    )
    if path.exists() and path.read_text() == text:
        return False
    path.write_text(text)
    return True


def server(layout: Layout, site: Site) -> Server:
    argv = ("/usr/sbin/sshd", "-D", "-f", str(_conf(layout, site)))
    return Server(f"{site.name}.sshd", (*argv, "-e"), port=site.port)


def remove_users(layout: Layout) -> None:
    """Remove the users, whose processes have to be gone."""
    for site in layout.sites:
        with contextlib.suppress(KeyError):
            pwd.getpwnam(site.user)
            _change_accounts(["userdel", site.user])


def _conf(layout: Layout, site: Site) -> Path:
    return layout.directory / "ssh" / f"{site.name}.conf"


def _make_user(site: Site) -> None:
    try:
        pwd.getpwnam(site.user)
    except KeyError:
        home = ["--no-create-home", "--home-dir", str(site.home)]
        account = ["--user-group", "--shell", "/bin/bash", "--password", "*"]
        _change_accounts(["useradd", *home, *account, site.user])
    (site.home / "bin").mkdir(parents=True, exist_ok=True)
    for path in (site.home, site.home / "bin"):
        path.chmod(0o700)
        shutil.chown(path, site.user, site.user)


def _change_accounts(argv: list[str]) -> None:
    """Other testbeds may hold the lock of the accounts for a moment."""
    processes.wait_until(
        lambda: processes.run(argv, check=False).returncode in (0, 6, 9), " ".join(argv)
    )


def _write_profile(layout: Layout, site: Site) -> None:
    exports = "".join(
        f"{name}={value}; export {name}\n" for name, value in layout.environment(site).items()
    )
    profile = site.home / ".profile"
    profile.write_text(PROFILE.format(exports=exports))
    shutil.chown(profile, site.user, site.user)


def _make_key(path: Path) -> None:
    if not path.with_suffix(".pub").exists():
        path.unlink(missing_ok=True)
        processes.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", str(path)]
        )


def _give_to_caller(directory: Path) -> None:
    """With sudo, the client's files are for the one who called it."""
    if "SUDO_UID" in os.environ:
        uid, gid = int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", "-1"))
        for path in [directory, *directory.iterdir()]:
            os.chown(path, uid, gid)
