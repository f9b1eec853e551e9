"""In place of the process that answers queries: without a Spark, and ended by a query that says so."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection

import pyarrow as pa

from headwater.query.explanation import Explained
from headwater.query.spark.messages import Ask, AskPlan, Done, QueryStarted, RowBatch, receive_project

ROWS = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})
TOGETHER = 5
"""Queries that the first process waits for."""


class FakeWorker:
    """The first such process of a lake waits for all its queries and ends; later ones answer them."""

    def __init__(self, control: socket.socket) -> None:
        starts = receive_project(control).root / "starts"
        with starts.open("a", encoding="utf-8") as file:
            file.write("x")
        self._first = len(starts.read_text(encoding="utf-8")) == 1
        self._control = control
        self._there = threading.Semaphore(0)
        self._running = 0

    def serve(self) -> None:
        while True:
            message, handles, _, _ = socket.recv_fds(self._control, 1, 1)
            if not message:
                os._exit(0)
            for handle in handles:
                threading.Thread(target=self._answer, args=[Connection(handle)], daemon=True).start()

    def _answer(self, line: Connection) -> None:
        request = line.recv()
        line.send(True)
        self._running += 1
        assert self._first or self._running == 1, "a query that is run again is alone"
        if request.sql == "grows":
            for _ in range(TOGETHER - 1 if self._first else 0):
                self._there.acquire()
            os._exit(3)
        if self._first and request.sql in ("analysed", "explained"):
            self._there.release()
            return  # never answered: the line stays open
        self._told(line, request)
        self._running -= 1

    def _told(self, line: Connection, request: Ask | AskPlan) -> None:
        if isinstance(request, AskPlan):
            line.send(Done(Explained("spark", "", ())))
            return
        line.send(QueryStarted({}, ROWS.schema.serialize().to_pybytes()))
        if self._first and request.sql == "started":
            self._there.release()
            return
        line.recv()
        line.send(RowBatch())
        line.send_bytes(ROWS.serialize().to_pybytes())
        if self._first and request.sql == "handed out":
            self._there.release()
            return
        line.send(Done())


def main(arguments: Sequence[str]) -> None:
    FakeWorker(socket.socket(fileno=int(arguments[0]))).serve()
