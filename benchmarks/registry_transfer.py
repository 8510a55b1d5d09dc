"""Pushing and pulling a large blob over loopback: ours against curl with a hash beside it.

They take turns on the same registry.

    python -m benchmarks.registry_transfer [MIB [ROUNDS]]

The registry is Debian's ``docker-registry`` where it is installed, else the one of the tests. The
hash is openssl's where that is installed: sha256sum's may take twice as long. The goals are 0.8 of
curl's speed, and 60 MiB of memory over start. Who pushes must know the digest before, so both read
the file twice.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.oci_registry import OciRegistry, open_oci_registry
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.host.memory import peak_memory_nbytes, resident_nbytes
from tests.registry.servers import serve

_REPOSITORY = "benchmark/blobs"
_SHA256 = "openssl dgst -sha256 -r" if shutil.which("openssl") else "sha256sum"


def main() -> None:
    """Prints the ratio of each direction, and our memory."""
    mib, rounds = ([int(each) for each in sys.argv[1:]] + [1024, 5][len(sys.argv) - 1 :])[:2]
    kind = "real" if shutil.which("docker-registry") else "in process"
    with tempfile.TemporaryDirectory() as name, serve(kind, Path(name)) as server:
        folder = Path(name)
        print(f"{mib} MiB, {rounds} rounds, registry: {kind}")
        ratios: dict[str, list[float]] = {"push": [], "pull": []}
        memory: dict[str, int] = {"push": 0, "pull": 0}
        for number in range(rounds):
            pairs = _round(server.host, folder, mib, is_swapped=bool(number % 2))
            for direction, (ours_s, theirs_s, nbytes) in pairs.items():
                ratios[direction].append(theirs_s / ours_s)
                memory[direction] = max(memory[direction], nbytes)
        for direction, values in ratios.items():
            print(
                f"{direction}: {statistics.median(values):.2f} x curl's speed"
                f" ({min(values):.2f} to {max(values):.2f}),"
                f" {memory[direction] / (1 << 20):.0f} MiB over start"
            )


def _round(
    host: str, folder: Path, mib: int, *, is_swapped: bool
) -> dict[str, tuple[float, float, int]]:
    """direction → (our seconds, curl's, our memory over start)."""
    files = [_random_file(folder / f"blob-{number}", mib) for number in range(2)]
    pushes: list[Callable[[], float]] = [
        lambda: _ours(host, "push", files[0]),
        lambda: _timed(lambda: _curl_push(host, files[1])),
    ]
    pushed = _in_order(pushes, is_swapped=is_swapped)
    target = folder / "pulled"
    digest = _digest(files[1])
    pulled = _in_order(
        [
            lambda: _ours(host, "pull", files[0], target),
            lambda: _timed(lambda: _curl_pull(host, digest, folder / "curl")),
        ],
        is_swapped=is_swapped,
    )
    memory = [int((folder / f"{direction}.memory").read_text()) for direction in ("push", "pull")]
    for file in (*files, folder / "curl"):
        file.unlink()
    shutil.rmtree(target)
    shutil.rmtree(folder / "storage", ignore_errors=True)
    return {"push": (*pushed, memory[0]), "pull": (*pulled, memory[1])}


def _in_order(calls: list[Callable[[], float]], *, is_swapped: bool) -> tuple[float, float]:
    if is_swapped:
        theirs_s, ours_s = calls[1](), calls[0]()
    else:
        ours_s, theirs_s = calls[0](), calls[1]()
    return ours_s, theirs_s


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _random_file(path: Path, mib: int) -> Path:
    with path.open("wb") as stream:
        for _ in range(mib):
            stream.write(os.urandom(1 << 20))
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _ours(host: str, direction: str, file: Path, target: Path | None = None) -> float:
    """In a process of its own, whose start does not count."""
    words = [sys.executable, "-m", "benchmarks.registry_transfer", direction, host, str(file)]
    done = subprocess.run(
        [*words, str(target or "")], check=True, stdout=subprocess.PIPE, text=True
    )
    seconds, nbytes = done.stdout.split()
    (file.parent / f"{direction}.memory").write_text(nbytes)
    return float(seconds)


def _child(direction: str, host: str, file: Path, target: str) -> None:
    repository = open_oci_registry(host, _REPOSITORY)
    digest = _digest(file) if direction == "pull" else ""
    before = resident_nbytes()
    began = time.perf_counter()
    if direction == "push":
        digest = _digest(file)
        descriptor = _described(file, digest)
        repository.write_blob(descriptor, lambda: file.open("rb"))
    else:
        _pull(repository, _described(file, digest), Path(target))
    took = time.perf_counter() - began
    print(took, (peak_memory_nbytes() or 0) - before)


def _described(file: Path, digest: str) -> Descriptor:
    nbytes = file.stat().st_size
    return Descriptor(media_type="application/octet-stream", digest=digest, nbytes=nbytes)


def _pull(repository: OciRegistry, descriptor: Descriptor, target: Path) -> None:
    """As an installation does: into a store, hashed while it arrives, durable at the end."""
    store = PackageStore(target)
    store.blobs.receive(
        descriptor,
        lambda offset: repository.read_blob(descriptor, offset=offset),
        source=repository.name,
    )


def _curl_push(host: str, file: Path) -> None:
    digest = _shell(f"{_SHA256} '{file}'").split()[0]
    uploads = f"http://{host}/v2/{_REPOSITORY}/blobs/uploads/"
    location = _location(f"curl -sf -D - -o /dev/null -X POST '{uploads}'", host)
    stream = "-H 'Content-Type: application/octet-stream' -H 'Expect:'"
    location = _location(
        f"curl -sf -D - -o /dev/null -X PATCH {stream} -T '{file}' '{location}'", host
    )
    joint = "&" if "?" in location else "?"
    _shell(f"curl -sf -X PUT -H 'Content-Length: 0' '{location}{joint}digest=sha256:{digest}'")


def _curl_pull(host: str, digest: str, target: Path) -> None:
    url = f"http://{host}/v2/{_REPOSITORY}/blobs/{digest}"
    assert (
        _shell(f"curl -sf '{url}' | tee '{target}' | {_SHA256}; sync '{target}'").split()[0] in url
    )


def _location(command: str, host: str) -> str:
    for line in _shell(command).splitlines():
        name, _, value = line.partition(":")
        if name.lower() == "location":
            value = value.strip()
            return value if "://" in value else f"http://{host}{value}"
    raise RuntimeError("curl got no Location")


def _shell(command: str) -> str:
    return subprocess.run(
        ["bash", "-c", command], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    if sys.argv[1:2] in (["push"], ["pull"]):
        _child(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
    else:
        main()
