"""What kind of file system something lies on. Looking only."""

from __future__ import annotations

import re
from pathlib import Path

NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|lustre|glusterfs|fuse\.(?:sshfs|glusterfs|ceph|s3fs|rclone)"
)


def file_system(path: Path) -> str:
    """The kind of file system that `path` is on, as the kernel names it; `unknown` where it does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    place = path.resolve()
    best, kind = -1, "unknown"
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        if place.is_relative_to(point) and len(point.parts) >= best:  # the last mount over a place counts
            best, kind = len(point.parts), after.split(" ")[0]
    return kind


def is_network(kind: str) -> bool:
    """Whether locks and atomic renames are another machine's on this kind of file system: nothing is promised there."""
    return NETWORK.fullmatch(kind) is not None
