"""What a question costs over gRPC alone, beside Flower's HTTP: one stream a site, TLS with certificates on both sides.

    python benchmarks/grpc_link.py           # 2 and 8 sites; writes benchmarks/results/grpc_link.json
    python benchmarks/grpc_link.py --quick   # fewer questions, prints only

Sites call out and keep a stream open; questions come down and answers go up on it, so nobody polls. It is a measurement
and no engine: no journal, no resuming, no admission. Every party is a process of its own; needs the `flower` extra,
which brings grpcio.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import json
import multiprocessing
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import keep

SIZES = (1_000, 1_000_000)
LIMIT = [("grpc.max_receive_message_length", 64 * 2**20), ("grpc.max_send_message_length", 64 * 2**20)]
TALK = "/fedgeom.Link/Talk"


def make_certificates(folder: Path) -> None:
    """Make an authority, and a certificate of the coordinator and one of all sites."""
    now, keys = datetime.datetime.now(datetime.UTC), {}
    for name in ("ca", "coordinator", "site"):
        keys[name] = ec.generate_private_key(ec.SECP256R1())
        subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (name, "ca"))
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
        builder = builder.public_key(keys[name].public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = builder.add_extension(here, critical=False).sign(keys["ca"], hashes.SHA256())
        (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        key = keys[name].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{name}.key").write_bytes(key)


def site(folder: Path, port: int, size: int) -> None:
    """Call the coordinator, and answer every question with so many bytes until it hangs up."""
    ca, pem, key = ((folder / name).read_bytes() for name in ("ca.pem", "site.pem", "site.key"))
    channel = grpc.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials(ca, key, pem), options=LIMIT)
    answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    answers.put(b"here")
    blank = bytes(size)
    for question in channel.stream_stream(TALK)(iter(answers.get, None)):
        if question == b"end":
            answers.put(None)
        else:
            answers.put(blank)


class Link(grpc.GenericRpcHandler):
    """The coordinator's end of all streams."""

    def __init__(self, sites: int) -> None:
        self.down: list[queue.SimpleQueue[bytes | None]] = []
        self.up: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.all_here, self._sites = threading.Event(), sites

    def service(self, details: Any) -> Any:
        """Take every call as a stream of answers up, and questions down."""
        return grpc.stream_stream_rpc_method_handler(self._talk)

    def _talk(self, answers: Iterator[bytes], _: Any) -> Iterator[bytes]:
        mine: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        next(answers)
        self.down.append(mine)
        if len(self.down) == self._sites:
            self.all_here.set()

        def read() -> None:
            for answer in answers:
                self.up.put(answer)

        threading.Thread(target=read, daemon=True).start()
        while (question := mine.get()) is not None:
            yield question
        yield b"end"


def coordinator(folder: Path, sites: int, questions: int, size: int, told: Any) -> None:
    """Put questions to all sites, one after the other; tell how long they took, and the processor time of an answer."""
    ca, pem, key = ((folder / name).read_bytes() for name in ("ca.pem", "coordinator.pem", "coordinator.key"))
    server = grpc.server(ThreadPoolExecutor(sites + 2), options=LIMIT)
    link = Link(sites)
    server.add_generic_rpc_handlers((link,))
    credentials = grpc.ssl_server_credentials([(key, pem)], ca, require_client_auth=True)
    told.send(server.add_secure_port("127.0.0.1:0", credentials))
    server.start()
    link.all_here.wait()
    blank, cpu, wall = bytes(size), time.process_time(), time.perf_counter()
    for _ in range(questions):
        for one in link.down:
            one.put(blank)
        for _ in link.down:
            link.up.get()
    told.send((time.perf_counter() - wall, time.process_time() - cpu))
    for one in link.down:
        one.put(None)
    server.stop(2).wait()


def measure(sites: int, questions: int, size: int) -> dict[str, Any]:
    """Hold so many questions and answers of so many bytes."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make_certificates(folder)
        start = multiprocessing.get_context("spawn")
        ours, theirs = start.Pipe()
        processes = [start.Process(target=coordinator, args=(folder, sites, questions, size, theirs))]
        processes[0].start()
        port = ours.recv()
        processes += [start.Process(target=site, args=(folder, port, size)) for _ in range(sites)]
        for one in processes[1:]:
            one.start()
        wall, cpu = ours.recv()
        for one in processes:
            one.join(20)
            if one.is_alive():
                one.kill()
    return {
        "sites": sites,
        "bytes": size,
        "question_s": wall / questions,
        "coordinator_cpu_s_an_answer": cpu / questions / sites,
        "requests_an_answer": 0,
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    found = []
    for sites in (2, 8):
        for size in SIZES:
            found.append(measure(sites, 20 if quick else 200 if size < 10_000 else 50, size))
            print(json.dumps(found[-1]), flush=True)
    if not quick:
        keep("grpc_link", {"runs": found})


if __name__ == "__main__":
    main()
