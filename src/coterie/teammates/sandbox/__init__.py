"""What keeps commands in: an emptied environment, and the operating system's sandbox behind one seam.

boundary     the seam: how a command is started, at which level
rules        what commands may do, by the settings; `limits`
environment  variables, from nothing
bubblewrap   Linux: namespaces; what is mounted, from `toolchains`, `gitview` and `space`; `seccomp`
landlock     what stands in where bubblewrap cannot run: a part of the boundary
seatbelt     macOS: a profile for sandbox-exec, untested
probe        whether it holds, by trying (imported by whoever starts a host, since it runs commands itself)
"""

from __future__ import annotations

from coterie.teammates.sandbox.boundary import Boxed, Level, NoSandbox, Sandbox
from coterie.teammates.sandbox.environment import environment, hide_process
from coterie.teammates.sandbox.limits import Limits
from coterie.teammates.sandbox.rules import Rules

__all__ = ["Boxed", "Level", "Limits", "NoSandbox", "Rules", "Sandbox", "environment", "hide_process"]
