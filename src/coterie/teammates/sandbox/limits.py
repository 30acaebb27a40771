"""What a command may use of the machine."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]

MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The most of each; 0 is no limit."""

    file_mb: int = 4096  # one file
    memory_mb: int = 8192  # what one process may write to of its own
    processes: int = 2048  # at once, in one command; the kernel does not count those of root
    files: int = 8192  # open in one process

    def of_process(self) -> dict[str, int]:
        """As limits of a process, by name without RLIMIT_. DATA and not AS: some reserve far more than they use."""
        wanted = {
            "FSIZE": self.file_mb * MB,
            "DATA": self.memory_mb * MB,
            "NOFILE": self.files,
            "CORE": -1,
        }
        return {name: max(most, 0) for name, most in wanted.items() if most}
