"""Registries to test against: in this process, and Debian's ``docker-registry`` in one of its own.

``make registry`` has the same tests run on both.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.registry.credentials import Credentials
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.http_retries import Clock
from ortpkg.distribution.registry.http_transport import HttpTransport, Request
from ortpkg.distribution.registry.oci_registry import OciRegistry
from ortpkg.distribution.registry.registry_client import RegistryClient
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import RegistryError
from ortpkg.package.references.http_addresses import parse_registry_host
from tests.registry.in_process_registry import InProcessRegistry, running

#: Set by ``make registry``.
REAL_VARIABLE = "ORTPKG_TEST_DOCKER_REGISTRY"
USER, PASSWORD = "ann", "correct horse"
#: bcrypt of PASSWORD with cost 4: the server has no other kind, and Python no bcrypt.
_HTPASSWD = "ann:$2y$04$aaaaaaaaaaaaaaaaaaaaaOpp3gxdfunvbuily8JcHolTizVMaE/pu"

KINDS_IN_PROCESS = ("in process", "in process, bearer", "in process, basic, tls, no referrers")
KINDS_REAL = ("real", "real, basic", "real, tls", "real, basic, tls")


@dataclass(frozen=True, kw_only=True)
class Server:
    """A registry that runs.

    Attributes:
        host: ``host:port``.
        credentials: that it takes; None where it asks for none.
        ca_file: the certificate that it has made itself.
        slept: how long clients waited between tries, without waiting.
        in_process: the registry in this process; None where it is another.
    """

    host: str
    kind: str
    credentials: Credentials | None = None
    ca_file: Path | None = None
    slept: list[float]
    in_process: InProcessRegistry | None = None

    @property
    def is_real(self) -> bool:
        return self.in_process is None

    def client(self, credentials: Credentials | None = None) -> RegistryClient:
        """A client, by default with the credentials that the server takes, which never waits."""
        transport = HttpTransport(clock=Clock(sleep=self.slept.append), ca_file=self.ca_file)
        known = credentials or self.credentials
        return RegistryClient(
            parse_registry_host(self.host), transport=transport, find=lambda key: known
        )

    def repository(self, name: str = "models/digits") -> OciRegistry:
        """A repository, with a client of its own."""
        return OciRegistry(self.client(), name)


def described(content: bytes, media_type: str = "application/octet-stream") -> Descriptor:
    """The descriptor of some bytes."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Descriptor(media_type=media_type, digest=digest, nbytes=len(content))


@contextmanager
def serve(kind: str, folder: Path) -> Iterator[Server]:
    """A server of one of the kinds. ``folder`` is where it may keep what it has."""
    has_tls, has_basic = "tls" in kind, "basic" in kind
    certificate = self_made_certificate(folder) if has_tls else None
    ca_file = certificate[0] if certificate else None
    asks = has_basic or "bearer" in kind
    credentials = Credentials(username=USER, password=Secret(PASSWORD)) if asks else None
    if kind.startswith("real"):
        with _docker_registry(folder, certificate, has_basic=has_basic) as host:
            server = Server(
                host=host, kind=kind, credentials=credentials, ca_file=ca_file, slept=[]
            )
            _wait_for(server)
            yield server
        return
    registry = InProcessRegistry(
        auth="basic" if has_basic else "bearer" if "bearer" in kind else "none",
        has_referrers_api="no referrers" not in kind,
    )
    with running(registry, certificate):
        yield Server(
            host=registry.host,
            kind=kind,
            credentials=credentials,
            ca_file=ca_file,
            slept=[],
            in_process=registry,
        )


def self_made_certificate(folder: Path) -> tuple[Path, Path]:
    """(certificate, key) for 127.0.0.1, which no system trusts."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


@contextmanager
def _docker_registry(
    folder: Path, certificate: tuple[Path, Path] | None, *, has_basic: bool
) -> Iterator[str]:
    program = os.environ.get(REAL_VARIABLE) or "docker-registry"
    if shutil.which(program) is None:
        raise FileNotFoundError(f"{program} is not there: apt-get install docker-registry")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    configuration: dict[str, object] = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(folder / "storage")},
            "delete": {"enabled": True},
        },
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    if certificate is not None:
        tls = {"certificate": str(certificate[0]), "key": str(certificate[1])}
        configuration["http"] = {"addr": f"127.0.0.1:{port}", "tls": tls}
    if has_basic:
        (folder / "htpasswd").write_text(_HTPASSWD + "\n")
        configuration["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
    file = folder / "registry.yml"
    file.write_text(json.dumps(configuration))  # JSON is YAML
    environment = {key: value for key, value in os.environ.items() if "PROXY" not in key.upper()}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", str(file)],
            stdout=log,
            stderr=log,
            env={**environment, "OTEL_TRACES_EXPORTER": "none"},
        )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(server: Server) -> None:
    """Until it answers, for 20 s."""
    request = Request(method="GET", url=f"{'https' if server.ca_file else 'http'}://{server.host}/")
    transport = HttpTransport(ca_file=server.ca_file)
    for _ in range(400):
        with contextlib.suppress(RegistryError):
            transport.open_once(request).close()
            return
        time.sleep(0.05)
    raise TimeoutError("docker-registry does not answer")


def basic_header() -> str:
    """What a client with the password sends."""
    return "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
