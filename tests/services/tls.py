"""TLS before a server that has none of its own: what is not encrypted is not let through."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

SSL_REQUEST, GSS_REQUEST = 80877103, 80877104
"""With what a client of Postgres asks for an encrypted connection."""


@dataclass(frozen=True)
class Identity:
    """A certificate that vouches for itself, for loopback."""

    certificate: Path
    key: Path

    @staticmethod
    def make(folder: Path, name: str) -> Identity:
        program = shutil.which("openssl")
        if program is None:
            pytest.skip("openssl makes the certificates of this test")
        made = Identity(folder / f"{name}.crt", folder / f"{name}.key")
        command = [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(made.certificate), "-keyout", str(made.key)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return made


@contextmanager
def tls_before(port: int, identity: Identity) -> Iterator[int]:
    """The port at which a Postgres server can be had by TLS alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, context, port), daemon=True).start()
        yield listening.getsockname()[1]


def _accept(listening: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with suppress(OSError):  # closed: the test is over
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve, args=(client, context, port), daemon=True).start()


def _serve(client: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with suppress(OSError), client:
        while (asked := struct.unpack("!ii", client.recv(8, socket.MSG_WAITALL))[1]) == GSS_REQUEST:
            client.sendall(b"N")
        if asked != SSL_REQUEST:
            return
        client.sendall(b"S")
        with (
            context.wrap_socket(client, server_side=True) as inside,
            socket.create_connection(("127.0.0.1", port)) as to,
        ):
            back = threading.Thread(target=_pass_on, args=(to, inside), daemon=True)
            back.start()
            _pass_on(inside, to)
            back.join(5)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
