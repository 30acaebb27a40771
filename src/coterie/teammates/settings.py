"""The settings of a team, as they are in force and stand in team.json."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["DEFAULT_MODEL", "TeamSettings"]

DEFAULT_MODEL = "claude-sonnet-5-5"

Seconds = Annotated[float, Field(ge=0, le=86_400, strict=False)]


class TeamSettings(BaseModel):
    """What a team runs by. Where each value came from (command line, environment, file) is the console's business."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    teammates: int = Field(default=3, ge=1, le=64, description="At most this many teammates at once.")
    approver: Literal["lead", "human"] = Field(default="lead", description="Who decides on plans.")
    approver_paths: dict[str, Literal["lead", "human"]] = Field(
        default_factory=dict,
        description="Path pattern -> who decides on plans of tasks whose scope touches it; human wins, and a task "
        "without a scope could touch anything.",
    )
    plans: Literal["all", "lead", "none"] | None = Field(
        default=None,
        description="Who says which tasks need a plan; unset: all when the approver is human, else lead.",
    )
    splits: Literal["human", "auto"] = Field(default="auto", description="Who approves the split into tasks.")
    checks: list[str] = Field(
        default_factory=list,
        description="Commands that must pass on the integration branch after every merge.",
    )
    model: str = Field(default=DEFAULT_MODEL, min_length=1, description="The model of all members.")
    fallback_model: str | None = Field(default=None, description="The model to use after repeated overload.")
    base_url: str | None = Field(default=None, description="A server that speaks the Messages API.")
    max_usd: float | None = Field(
        default=None, gt=0, strict=False, description="Stop in order past this cost, dollars."
    )
    max_tokens: int | None = Field(default=None, gt=0, description="Stop in order past this many tokens.")
    answer_tokens: int = Field(default=16_000, ge=256, le=128_000, description="The most tokens of one answer.")
    max_attempts: int = Field(default=3, ge=1, le=100, description="A task given up this often has failed.")
    max_returns: int = Field(default=3, ge=1, le=100, description="A task returned this often has failed.")
    bash_timeout: Seconds = Field(default=120.0, description="Seconds for a command that names no other limit.")
    check_timeout: Seconds = Field(default=600.0, description="Seconds for one check.")
    shutdown_timeout: Seconds = Field(default=60.0, description="Seconds until a shutdown is forced.")
    stall_timeout: Seconds = Field(default=1800.0, description="Seconds a stalled run waits for decisions.")
    hung_after: Seconds = Field(
        default=60.0, description="Seconds without an answer after which a host process counts as hung."
    )
    orphan_timeout: Seconds = Field(
        default=600.0, description="Seconds that a joined teammate waits for a lost lead's host to come back."
    )
    worktrees_root: str | None = Field(
        default=None, description="Where worktrees lie; default: the user's state folder."
    )
    durability: Literal["power", "process"] = Field(
        default="power", description="What every write survives: a power loss too, or only the death of processes."
    )
    read_roots: list[str] = Field(
        default_factory=list,
        description="Folders outside the repository, absolute, in which the file tools may read too; "
        "never from a repository's file.",
    )
    allow: list[str] = Field(
        default_factory=list,
        description="Permission rules: what runs without asking. Once there is one, every other command and change of "
        "a file is asked about.",
    )
    ask: list[str] = Field(default_factory=list, description="Permission rules: what you are asked about each time.")
    deny: list[str] = Field(default_factory=list, description="Permission rules: what is refused; a courtesy.")
    permission_timeout: float = Field(
        default=600.0,
        gt=0,
        le=86_400,
        strict=False,
        description="Seconds that a call waits for your leave; silence means no.",
    )
    network: Literal["off", "on", "checks"] = Field(
        default="off", description="Whether commands have the network: none, all, or the checks of the queue alone."
    )
    unix_sockets: bool = Field(
        default=False,
        description="Whether commands that have the network may make unix sockets, as test suites do that start a "
        "database. Without the network they may: there is nobody outside to reach.",
    )
    sandbox_read_only: list[str] = Field(
        default_factory=list, description="Folders and files that commands may read besides what PATH leads to."
    )
    max_file_mb: int = Field(default=4096, ge=0, le=1 << 24, description="MiB of a file that a command writes; 0: any.")
    max_memory_mb: int = Field(
        default=8192, ge=0, le=1 << 24, description="MiB of memory of one process of a command; 0: any."
    )
    max_processes: int = Field(
        default=2048, ge=0, le=1 << 20, description="Processes of one command at a time; 0: any. Not counted for root."
    )
    max_open_files: int = Field(
        default=8192, ge=0, le=1 << 20, description="Open files of one process of a command; 0: any."
    )
    environment: dict[str, str] = Field(default_factory=dict, description="Variables that commands get, by name.")

    @property
    def plans_in_force(self) -> Literal["all", "lead", "none"]:
        """`plans`, or what follows from the approver where it is not set."""
        return self.plans or ("all" if self.approver == "human" else "lead")
