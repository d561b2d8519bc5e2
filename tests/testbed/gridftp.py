"""GridFTP servers for the sites, where asked for: anonymous, over SSH, and with certificates of a
CA of the testbed's own. Tried with Debian 12: server 13.24, globus-url-copy 10.12."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from tests.testbed import processes
from tests.testbed.layout import Layout, MissingError, Server, Site

NEEDED = {
    "globus-gridftp-server": "globus-gridftp-server-progs",
    "globus-url-copy": "globus-gass-copy-progs",
    "openssl": "openssl",
    "unshare": "util-linux",
}
"""Program → Debian package."""

Scheme = Literal["ftp", "gsiftp", "sshftp"]
SERVED: tuple[Scheme, ...] = ("ftp", "gsiftp")
"""Schemes with a server of their own; sshd serves the other."""

LAUNCHER = Path("/usr/share/globus/gridftp-ssh")
"""The program by which globus-url-copy calls SSH. Its place is compiled in."""

USER = "/O=Grid/CN=Tester"
POLICY = """\
access_id_CA X509 '/O=Grid/CN=Testbed CA'
pos_rights globus CA:sign
cond_subjects globus '"/O=Grid/*"'
"""
OVER_SSH = """\
#!/bin/sh
exec {program} -ssh -data-interface {address}
"""
# globus-url-copy calls /usr/bin/ssh, which knows the user's own configuration alone.
CLIENT = """\
#!/bin/sh
# Bind mounts of a namespace of its own, so that nothing is changed for others.
exec unshare --mount sh -c 'mount --bind "$0" {launcher} && exec {program} "$@"' {replaced} "$@"
"""
SSH_CONFIG = """\
Include {config}
Host 127.0.0.1
    IdentityFile {client}/id_ed25519
    IdentitiesOnly yes
    UserKnownHostsFile {client}/known_hosts
    StrictHostKeyChecking yes
"""


def place(layout: Layout) -> Path:
    """The directory of what the servers need; it is there if the testbed has such servers."""
    return layout.directory / "gridftp"


def check_machine() -> None:
    """Raises MissingError that names what is missing."""
    packages = [
        package
        for program, package in NEEDED.items()
        if shutil.which(program, path=processes.PATH) is None
    ]
    if packages:
        needed = f"apt-get install {' '.join(packages)}"
        raise MissingError(f"GridFTP servers need Debian packages: {needed}")
    if processes.run(["unshare", "--mount", "true"], check=False).returncode:
        raise MissingError("GridFTP servers need leave to mount: their client calls another ssh")


def port(layout: Layout, site: Site, scheme: Scheme) -> int:
    """The port of a site's server for this scheme."""
    if scheme == "sshftp":
        return site.port
    number = site.port - layout.base
    return layout.base + number + {"ftp": 4, "gsiftp": 31}[scheme]


def url(layout: Layout, name: str, path: str, scheme: Scheme) -> str:
    """The URL of a file; a relative path begins at the home of the site's user."""
    site = layout.site(name)
    user = f"{site.user}@" if scheme == "sshftp" else ""
    return f"{scheme}://{user}127.0.0.1:{port(layout, site, scheme)}{site.home / path}"


def environment(where: Path) -> dict[str, str]:
    """What a client needs in its environment: certificates, and the globus-url-copy of
    ``make_client``."""
    return {
        "PATH": f"{where / 'bin'}:{processes.PATH}",
        "X509_CERT_DIR": str(where / "certificates"),
        "X509_USER_PROXY": str(where / "user.pem"),
    }


def servers(layout: Layout) -> list[Server]:
    """The servers of all sites; none where the testbed was brought up without."""
    if not place(layout).exists():
        return []
    return [_server(layout, site, scheme) for site in layout.sites for scheme in SERVED]


def _server(layout: Layout, site: Site, scheme: Scheme) -> Server:
    number = port(layout, site, scheme)
    log = layout.logs / f"{site.name}.{scheme}.transfers.log"
    where = place(layout)
    if scheme == "ftp":
        argv, variables = argv_of(number, "127.0.0.1", log, site.user), {}
    else:
        argv = argv_of(number, "127.0.0.1", log, None)
        variables = server_environment(where, where / f"{site.name}.gridmap")
    return Server(f"{site.name}.{scheme}", argv, variables, number)


def argv_of(port: int, address: str, log: Path, anonymous_user: str | None) -> tuple[str, ...]:
    """The command line of a server: anonymous for the files of this user, or with certificates."""
    argv = ["globus-gridftp-server", "-no-chdir", "-port", str(port), "-c", "/dev/null"]
    argv += ["-control-interface", address, "-data-interface", address, "-logfile", str(log)]
    if anonymous_user is not None:
        argv += ["-allow-anonymous", "-anonymous-user", anonymous_user]
    return tuple(argv)


def server_environment(where: Path, mapping: Path) -> dict[str, str]:
    """The environment of a server with certificates that are in a directory."""
    return {
        "X509_CERT_DIR": str(where / "certificates"),
        "X509_USER_CERT": str(where / "host.pem"),
        "X509_USER_KEY": str(where / "host.key"),
        "GRIDMAP": str(mapping),
    }


def prepare(layout: Layout) -> None:
    """Make the certificates, the client, and what lets sites serve over SSH."""
    where = place(layout)
    where.chmod(0o755)
    if not (where / "user.pem").exists():
        make_certificates(where, "DNS:localhost,IP:127.0.0.1")
    for site in layout.sites:
        (where / f"{site.name}.gridmap").write_text(gridmap(site.user))
        make_over_ssh(site.home, "127.0.0.1")
        for path in (site.home / ".globus", site.home / ".globus" / "sshftp"):
            shutil.chown(path, site.user, site.user)
    config = where / "ssh_config"
    config.write_text(SSH_CONFIG.format(config=layout.ssh_config, client=layout.client))
    make_client(where, config)


def gridmap(user: str) -> str:
    """The mapping of the client's certificate to a user."""
    return f'"{USER}" {user}\n'


def make_over_ssh(home: Path, address: str) -> None:
    """Let a user's sessions serve ``sshftp``; data connections use this address."""
    (home / ".globus").mkdir(exist_ok=True)
    program = shutil.which("globus-gridftp-server", path=processes.PATH)
    _write_program(home / ".globus" / "sshftp", OVER_SSH.format(program=program, address=address))


def make_client(where: Path, config: Path) -> None:
    """Make a globus-url-copy in ``where/bin`` that logs in with this SSH configuration."""
    replaced = where / "gridftp-ssh"
    text = LAUNCHER.read_text().replace("/usr/bin/ssh", f"/usr/bin/ssh -F {config}")
    _write_program(replaced, text)
    program = shutil.which("globus-url-copy", path=processes.PATH)
    (where / "bin").mkdir(exist_ok=True)
    client = CLIENT.format(launcher=LAUNCHER, program=program, replaced=replaced)
    _write_program(where / "bin" / "globus-url-copy", client)


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def make_certificates(where: Path, names: str) -> None:
    """Make a CA, a certificate for servers of these names and one for the client, the latter with
    its key in one file, where clients look for a proxy. globus-simple-ca would write to /etc."""
    authority = where / "ca.pem"
    key = where / "ca.key"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
    argv += ["-subj", "/O=Grid/CN=Testbed CA", "-keyout", str(key), "-out", str(authority)]
    processes.run(argv)
    _sign(where, "host", "/O=Grid/CN=localhost", f"subjectAltName={names}")
    _sign(where, "user", USER, "basicConstraints=CA:FALSE")
    trusted = where / "certificates"
    trusted.mkdir(exist_ok=True)
    name = processes.run(["openssl", "x509", "-hash", "-noout", "-in", str(authority)]).stdout
    shutil.copy(authority, trusted / f"{name.strip()}.0")
    (trusted / f"{name.strip()}.signing_policy").write_text(POLICY)
    with (where / "user.pem").open("a") as file:
        file.write((where / "user.key").read_text())
    (where / "user.pem").chmod(0o600)


def _sign(where: Path, name: str, subject: str, extensions: str) -> None:
    request, key, certificate = (where / f"{name}.{end}" for end in ("csr", "key", "pem"))
    argv = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", subject]
    processes.run([*argv, "-keyout", str(key), "-out", str(request)])
    key.chmod(0o600)
    options = where / f"{name}.ext"
    options.write_text(f"{extensions}\n")
    argv = ["openssl", "x509", "-req", "-in", str(request), "-days", "30", "-CAcreateserial"]
    argv += ["-CA", str(where / "ca.pem"), "-CAkey", str(where / "ca.key")]
    processes.run([*argv, "-extfile", str(options), "-out", str(certificate)])
