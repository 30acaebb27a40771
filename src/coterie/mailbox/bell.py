"""The wake-up: something has changed, look.

A ring carries no news, only that there may be some; nothing is believed from it. Within a process it is a counter
under a condition. Between processes it is one datagram on the loopback interface, to the port that stands in
`processes/<id>.port`. Datagrams may be lost and ports may be stale: the timeout of `wait` is the net under both.

A host can also be asked whether it still answers (`files.who_answers`). Its bell does as long as the process runs.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType

from coterie import files

_HERE = "127.0.0.1"
_SCHEMA = 1


class Bell:
    """One host process's bell. Threads look, then wait; who changed something rings.

        seen = bell.count()
        ...look at the files...
        bell.wait(seen, timeout=2.0)    # at once, if it rang since `seen` was taken

    processes: the team's folder of that name. process: the id of this host process; its port file is removed by
    `close`. Without a loopback interface the bell works within the process only.
    """

    def __init__(self, processes: Path, process: str) -> None:
        self._processes = processes
        self._mine = processes / f"{process}.port"
        self._changed = threading.Condition()
        self._count = 0
        self._closed = threading.Event()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> Bell:
        """Begin to listen to other processes. Until then, and without it, only this process is heard. Twice is once."""
        if self._socket is not None:
            return self
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            listener.bind((_HERE, 0))
        except OSError:
            listener.close()
            return self
        self._socket = listener
        self._thread = threading.Thread(target=self._listen, args=(listener,), name="bell", daemon=True)
        self._thread.start()
        files.make_folder(self._processes)
        files.write_json(self._mine, {"schema": _SCHEMA, "port": listener.getsockname()[1]})
        return self

    def count(self) -> int:
        """How often it rang. To be taken before looking."""
        with self._changed:
            return self._count

    def wait(self, seen: int, timeout: float) -> int:
        """Wait until it has rung more than `seen` times, at most `timeout` seconds; returns the count then."""
        with self._changed:
            self._changed.wait_for(lambda: self._count != seen or self._closed.is_set(), timeout)
            return self._count

    def ring(self) -> None:
        """Wake every waiting thread of every process of the team. Never blocks, never fails."""
        self.ring_here()
        ring_others(self._processes, but=self._mine)

    def ring_here(self) -> None:
        """Wake the waiting threads of this process."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Stop listening, remove the port file, and let every waiting thread go."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        if self._socket is None or self._thread is None:
            return
        files.remove(self._mine)
        _knock(self._socket.getsockname()[1])
        self._thread.join(timeout=2.0)
        self._socket.close()
        self._socket = self._thread = None

    def __enter__(self) -> Bell:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _listen(self, listener: socket.socket) -> None:
        while not self._closed.is_set():
            try:
                said, sender = listener.recvfrom(64)
            except OSError:
                self._closed.wait(0.05)
                continue
            if (answer := files.answer_to(said)) is not None:
                with contextlib.suppress(OSError):
                    listener.sendto(answer, sender)
            else:
                self.ring_here()


def ring_others(processes: Path, *, but: Path | None = None) -> None:
    """Wake the host processes of a team, from a command that has no bell of its own. Never blocks, never fails."""
    try:
        ports = [path for path in processes.iterdir() if path.suffix == ".port" and path != but]
    except OSError:
        return
    for path in ports:
        if (port := files.port_in(path)) is not None:
            _knock(port)


def _knock(port: int) -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(b"!", (_HERE, port))
