"""Breaks the program on purpose, one way at a time, and sees whether a test turns red: `make mutants`.

usage: mutants.py [WORD …]    only the breaks whose sentence has one of the words
Each break is made in a copy of the tree. Prints a table; ends with 1 if a test stays green or a break finds no place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 900  # seconds; a test that hangs is red too


@dataclass(frozen=True)
class Break:
    """One fault. tests: what pytest is given, or `crash: START: OPERATION` for one operation of tests/crash."""

    says: str
    file: str
    old: str
    new: str
    tests: str


BREAKS = [
    # ---------------------------------------------------------------- files
    Break(
        "a file is not fsynced",
        "files/writing.py",
        "            if durable:\n                sync(handle)\n",
        "",
        "crash: board: claim",
    ),
    Break(
        "a folder that was written to under the lock is not fsynced",
        "files/writing.py",
        "        pending.folders.add(folder)\n        return\n",
        "        return\n",
        "crash: board: claim",
    ),
    Break(
        "the folders are fsynced only after the answer",
        "files/locks.py",
        "            for folder in folders:\n                sync_folder(folder)\n",
        "            del folders\n",
        "crash: mail: send",
    ),
    Break(
        "a file is written in place",
        "files/writing.py",
        "        put(temp, data, os.O_EXCL, durable=durable, as_is=as_is)\n        temp.replace(final)\n",
        "        put(final, data, os.O_TRUNC, as_is=as_is)\n",
        "crash: board: submit",
    ),
    Break(
        "the lock between processes is not taken",
        "files/locks.py",
        "        if threads.depth == 1:\n            try:\n                _wait_for(",
        "        if threads.depth == 0:\n            try:\n                _wait_for(",
        "tests/test_files.py -k processes",
    ),
    Break(
        "the threads share one lock of filelock (thread_local=False) instead of our own",
        "files/locks.py",
        "preserve_lock_file=True)\n            _locks[key] = (_FairLock(), between)",
        "preserve_lock_file=True, thread_local=False)\n"
        "            _locks[key] = (_Open(), between)  # type: ignore[assignment]",
        "tests/test_files.py -k threads",
    ),
    # ---------------------------------------------------------------- the board
    Break(
        "the index is not brought in step under the lock",
        "taskboard/store.py",
        "        with self._locked():\n            self._catch_up()\n            yield self.shelf",
        "        with self._locked():\n            self.loaded or self._catch_up()\n            yield self.shelf",
        "tests/taskboard/test_board.py tests/taskboard/test_many.py",
    ),
    Break(
        "the epoch is not checked",
        "taskboard/task.py",
        " and self.epoch == epoch and self.wanted is None",
        " and self.wanted is None",
        "tests/taskboard/test_moves.py",
    ),
    Break(
        "`wanted` is ignored",
        "taskboard/task.py",
        " and self.epoch == epoch and self.wanted is None",
        " and self.epoch == epoch",
        "tests/taskboard/test_moves.py",
    ),
    Break(
        "the queue sets `merging` for an entry that is not current",
        "taskboard/acts.py",
        '    """\n    expect_current(task, epoch)\n    to = target(Move.MERGE, task)\n',
        '    """\n    to = target(Move.MERGE, task)\n',
        "tests/taskboard/test_moves.py",
    ),
    Break(
        "what is being merged can be taken away",
        "taskboard/acts.py",
        "    if task.merging is not None:\n        raise IllegalMove(",
        "    if task.merging == 0:\n        raise IllegalMove(",
        "tests/taskboard/test_moves.py tests/taskboard/test_board.py",
    ),
    Break(
        "a batch has no intent",
        "taskboard/store.py",
        "            intent = self._intents.write(tasks, made_by)\n            self.shelf.put_new(tasks)\n"
        "            self._intents.finish(intent)\n",
        "            self.shelf.put_new(tasks)\n",
        "crash: board: create batch",
    ),
    Break(
        "recovery leaves a half-written batch to the next mutation",
        "lead/recovery.py",
        "    team.board.settle()  # quarantine, and batches that were begun\n",
        "",
        "crash: board: create batch, from a terminal",
    ),
    Break(
        "the key of a call is not kept in the history",
        "taskboard/acts.py",
        "        reason=storable(reason),\n        made_by=made_by,\n",
        "        reason=storable(reason),\n        made_by=None,\n",
        "crash: board: give up",
    ),
    Break(
        "a key that was used is not looked for",
        "taskboard/board.py",
        "            if made_by is not None and made_by in index.created:",
        "            if made_by is not None and made_by == '':",
        "crash: board: create one",
    ),
    # ---------------------------------------------------------------- mail and requests
    Break(
        "mail is acknowledged before the journal has it",
        "mailbox/box.py",
        "            if mine:\n                journal(mine)\n            said = self._put_away(name, read)\n",
        "            said = self._put_away(name, read)\n            if mine:\n                journal(mine)\n",
        "crash: mail: deliver",
    ),
    Break(
        "mail that the journal has is delivered again",
        "mailbox/box.py",
        " and not seen(each.message.id)]\n            mine",
        "]\n            mine",
        "tests/mailbox/test_receiving.py",
    ),
    Break(
        "the half of a killed send stays",
        "lead/recovery.py",
        "    steps.drop_unsent(team)\n",
        "",
        "crash: mail: send",
    ),
    Break(
        "a torn line of the ledger is written on",
        "mailbox/ledger.py",
        'b"\\n" + line if self._torn else line',
        "line",
        "tests/mailbox",
    ),
    Break(
        "the key of a message is not looked for",
        "mailbox/box.py",
        "            if made_by is not None and (earlier := self._sent_for",
        "            if made_by == '' and (earlier := self._sent_for",
        "crash: mail: send",
    ),
    Break(
        "the key of a request is not looked for",
        "mailbox/requests.py",
        "            if made_by is not None and (earlier := self._shelf.made_for(made_by)) is not None:\n"
        "                return self._shelf.take(earlier)\n            at = files.now()",
        "            at = files.now()",
        "crash: mail: submit a plan",
    ),
    Break(
        "senders are not told what an ended life never read",
        "mailbox/box.py",
        "        for message in messages:\n            if message.sender in",
        "        journal_undelivered(messages)\n        messages = [] if messages else []\n"
        "        for message in messages:\n            if message.sender in",
        "tests/mailbox crash: mail: end of a life",
    ),
    Break(
        "a decision is made on what was read before the lock",
        "mailbox/requests.py",
        "        with files.locked(self._lock):\n            request = self._shelf.take(identifier)\n"
        "            if made_by is not None and any",
        "        request = self._shelf.take(identifier)\n        with files.locked(self._lock):\n"
        "            if made_by is not None and any",
        "tests/mailbox",
    ),
    Break(
        "mail that a request owes is not sent by recovery",
        "lead/recovery.py",
        "            send_owed(team.requests, team.mail, request)\n    for task",
        "            pass\n    for task",
        "crash: mail: approve, from a terminal",
    ),
    # ---------------------------------------------------------------- journal and loop
    Break(
        "the checksum of a journal is ignored",
        "teammates/journal.py",
        '    if tail != f\'{len(data)}, "crc": "{zlib.crc32(data):08x}"}}\\n\'.encode():\n        return None\n',
        "",
        "tests/teammates/test_journal_file.py",
    ),
    Break(
        "a torn record stays in the journal",
        "teammates/journal.py",
        "            files.truncate(path, path.stat().st_size - torn)\n",
        "            pass\n",
        "crash: mail: append to a journal",
    ),
    Break(
        "the start of a call is not journaled",
        "teammates/loop.py",
        "                    if not again:\n                        started()\n",
        "",
        "crash: desk: lead: send_message",
    ),
    Break(
        "the key of a call is another one after a restart",
        "teammates/loop.py",
        "        key = self.key(answer, index)\n",
        '        key = f"{self.key(answer, index)}/{again}"\n',
        "crash: desk: lead: send_message",
    ),
    Break(
        "an interrupted call is not made again",
        "teammates/loop.py",
        "(tool is not None and tool.repeats) if began",
        "(tool is not None and tool.name == '') if began",
        "crash: desk: lead: create_tasks",
    ),
    Break(
        "calls of an answer that was cut off are run",
        "teammates/loop.py",
        '            if answer.stop_reason == "max_tokens":\n                text = "not run',
        '            if answer.stop_reason == "":\n                text = "not run',
        "tests/teammates/test_turns.py -k cut_off",
    ),
    Break(
        "a report that a kill came before is never sent",
        "teammates/teammate.py",
        "        self.report_what_was_left()\n",
        "",
        "crash: work: ada: give_up",
    ),
    Break(
        "the key of a spawn is not kept",
        "teammates/roster.py",
        "                joined=joined is not None,\n                made_by=made_by,\n",
        "                joined=joined is not None,\n",
        "crash: desk: lead: spawn_teammate",
    ),
    # ---------------------------------------------------------------- gate and permission rules
    Break(
        "the gate goes by a tool's name",
        "teammates/dispatcher.py",
        "        facts = self._facts(tool.effect, runs=tool.runs)\n        if",
        "        reads = Effect.READS if tool.name.startswith('read') else tool.effect\n"
        "        facts = self._facts(reads, runs=tool.runs)\n        if",
        "tests/teammates/test_gate_on_disk.py",
    ),
    Break(
        "the gate is read before the call is registered, and not again",
        "teammates/dispatcher.py",
        "                acting.ruling = self._ruling(tool, arguments, call, text)\n",
        "",
        "tests/teammates/test_gate_on_disk.py -k revoke",
    ),
    Break(
        "the state of the plan is kept over a turn",
        "teammates/teammate.py",
        "    def plan_state(self) -> PlanState:\n        task = self.bound()\n",
        "    def plan_state(self) -> PlanState:\n        if (self.turn, self.loop) not in _kept:\n"
        "            _kept.clear()\n            _kept[self.turn, self.loop] = self._plan_state()\n"
        "        return _kept[self.turn, self.loop]\n\n"
        "    def _plan_state(self) -> PlanState:\n        task = self.bound()\n",
        "tests/teammates/test_gate_on_disk.py",
    ),
    Break(
        "a command is kept from writing in words only",
        "teammates/tools/commands.py",
        "        writable=not call.read_only,\n        started",
        "        started",
        "tests/teammates/test_gate_on_disk.py -k cannot_write",
    ),
    Break(
        "a command line is allowed where any command of it is",
        "teammates/permissions/rules.py",
        '            return hazard(words) or f"{said[:80]!r} matches none"',
        "            continue\n        return None",
        "tests/teammates/test_permission_rules.py",
    ),
    Break(
        "what is no complete syntax is believed",
        "teammates/permissions/shell.py",
        '        if root.has_error:\n            raise _Doubt("it is not complete shell syntax")\n',
        "",
        "tests/teammates/test_permission_rules.py",
    ),
    Break(
        "what stands between the words is not looked at",
        "teammates/permissions/shell.py",
        "        strict.expect_whole(source)\n",
        "",
        "tests/teammates/test_permission_rules.py",
    ),
    Break(
        "options that start others are not known",
        "teammates/permissions/rules.py",
        "        return same and (not self.more or hazard(words) is None)",
        "        return same",
        "tests/teammates/test_permission_rules.py",
    ),
    Break(
        "silence means yes",
        "teammates/permissions/asking.py",
        "            elif left <= 0:\n                now = _close(",
        "            elif left <= 0:\n                now = team.requests.decide(\n"
        '                    request.id, by="human", by_instance=None, approve=True\n                )\n'
        "            elif left <= -9:\n                now = _close(",
        "tests/teammates/test_asking.py",
    ),
    Break(
        "leave counts for whatever is called with the same key",
        "teammates/permissions/asking.py",
        "request.soundly_approved and request.text == text else",
        "request.soundly_approved else",
        "tests/teammates/test_asking.py",
    ),
    Break(
        "a yes opens a gate that closed meanwhile",
        "teammates/dispatcher.py",
        "                    ask(self._member, text, acting.ruling.why, call, assignment)\n",
        "                    ask(self._member, text, acting.ruling.why, call, assignment)\n                    break\n",
        "tests/teammates/test_asking.py",
    ),
    Break(
        "a question is asked again after a restart",
        "teammates/dispatcher.py",
        "        return request is not None and request.kind is RequestKind.PERMISSION\n",
        "        return False\n",
        "tests/teammates/test_asking.py",
    ),
    Break(
        "whether a command of a team steers is told from its own environment alone",
        "teammates/ancestry.py",
        "    pid, seen = os.getppid(), set[int]()\n",
        "    pid, seen = 0, set[int]()\n",
        "tests/console/test_permissions.py",
    ),
    Break(
        "what starts the commands is not known by its arguments",
        "teammates/ancestry.py",
        "        if _SPAWNER in _read(",
        '        if b"none" in _read(',
        "tests/console/test_permissions.py",
    ),
    Break(
        "a repository's rules allow whoever trusts it",
        "console/settings.py",
        '            if name == "allow" and each.origin == "repository" and not trusted:',
        '            if name == "" and each.origin == "repository" and not trusted:',
        "tests/console/test_permissions.py",
    ),
    Break(
        "the lead lowers a plan that the human decides on by its paths",
        "lead/tools.py",
        'and approver(settings, before.scope) != "human"',
        'and settings.approver != "human"',
        "tests/teammates/test_gate_on_disk.py -k lowers",
    ),
    # ---------------------------------------------------------------- recovery, queue, git
    Break(
        "temp files of dead processes stay",
        "lead/recovery.py",
        '                files.remove(path)\n                steps.say(team, f"removed the half-written {path}")\n',
        "                pass\n",
        "crash: board: claim",
    ),
    Break(
        "an outcome that a kill came before is never told",
        "lead/recovery.py",
        "            send_outcome(team, task)\n",
        "",
        "crash: work: the queue merges",
    ),
    Break(
        "the branch moves before `merging` says so",
        "lead/integration.py",
        "        team.board.set_merging(task.id, task.epoch, commit, evidence=evidence)\n        try:",
        "        try:",
        "crash: work: the queue merges",
    ),
    Break(
        "what was run on a merge is not in the record before the tip moves",
        "taskboard/acts.py",
        'task.result.model_copy(update={"evidence": tuple(evidence)})\n    return changed(task, to, by="queue"',
        'task.result\n    return changed(task, to, by="queue"',
        "tests/lead/test_restarted_queue.py",
    ),
    Break(
        "an interrupted edit is made again where its old text is a part of the new one",
        "teammates/tools/paths.py",
        "    if call.again and new and new in text and known != found.digest:",
        "    if call.again and not times and new in text and known != found.digest:",
        "crash: working: ada: edit_file",
    ),
    Break(
        "a decision takes a secret out of the text that it is on",
        "mailbox/requests.py",
        "self._shelf.save(moved, as_is=True)",
        "self._shelf.save(moved)",
        "tests/mailbox/test_request_files.py -k secret",
    ),
    Break(
        "a password that is a word is taken out of records",
        "files/redaction.py",
        "if len(each) > 200 or _WORDS.fullmatch(each) is None else set()",
        "",
        "tests/test_redaction.py -k word",
    ),
    Break(
        "a password that is a word is left in what a command says",
        "files/redaction.py",
        "        text = redacted_text(self._held + text)",
        "        text = redacted(self._held + text)",
        "tests/test_redaction.py",
    ),
    Break(
        "a mark of merging stays on what was handed in without a change",
        "lead/steps.py",
        "        merged = None  # what was handed in without a change is never merged\n",
        "        merged = None\n        if commit is None:\n            continue\n",
        "crash: board: set merging",
    ),
    Break(
        "who waits long for the lock tries as often as at first",
        "files/locks.py",
        "        pause = min(2 * pause, LAST)\n",
        "",
        "tests/test_files.py -k more_seldom",
    ),
    Break(
        "a journal that another owner goes on with is put back as it was",
        "teammates/journal.py",
        "        if len(found) > len(self.records) and found[: len(self.records)] == self.records:",
        "        if not found and found[: len(self.records)] == self.records:",
        "tests/teammates/test_journal_file.py -k another_owner",
    ),
    Break(
        "nobody looks whether an entry is merged already",
        "worktrees/merging.py",
        " if (each.task, each.epoch, each.head) == wanted), None)",
        " if (each.task, each.epoch) == wanted), None)",
        "crash: work: the queue merges",
    ),
    Break(
        "a ref is moved whatever it was",
        "worktrees/git.py",
        'argv = ("update-ref", "--create-reflog", END, ref, new, old)',
        'argv = ("update-ref", "--create-reflog", END, ref, new)',
        "tests/worktrees/test_merging.py tests/worktrees/test_keeper.py",
    ),
    Break(
        "a worktree is cleared without a snapshot",
        "worktrees/keeper.py",
        '        kept = snapshot(self.git, self._mended(where), team=self.team, label=f"{name}/closed")\n',
        "        kept = None\n",
        "tests/worktrees/test_keeper.py",
    ),
    Break(
        "a merge into a worktree is begun anew after a kill",
        "worktrees/joining.py",
        "    begun = joining(git, team=team, task=task, epoch=epoch)\n    if begun is not None and begun",
        "    begun = None\n    if begun is not None and begun",
        "tests/worktrees/test_joining.py",
    ),
    # ---------------------------------------------------------------- file tools, git, text and secrets
    Break(
        "a link that is put in the way during a call is followed",
        "files/below.py",
        "_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
        "tests/teammates/test_tools_paths.py -k during",
    ),
    Break(
        "a file that became a link during a call is followed",
        "files/below.py",
        "flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK",
        "flags = os.O_RDONLY | os.O_NONBLOCK",
        "tests/teammates/test_tools_paths.py -k during",
    ),
    Break(
        "a search follows a folder that became a link",
        "teammates/tools/searching.py",
        "FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
        "tests/teammates/test_tools_paths.py -k during",
    ),
    Break(
        "a hard link is read",
        "teammates/tools/reach.py",
        'elif at.own and kind == "a regular file" and found.st_nlink > 1:',
        'elif at.own and kind == "a regular file" and found.st_nlink > 99:',
        "tests/teammates/test_tools_paths.py -k hard",
    ),
    Break(
        "a root that is read may be written",
        "teammates/tools/paths.py",
        "    at = spot((member.directory(),), given.path)\n    fresh",
        "    at = _readable(member, given.path)\n    fresh",
        "tests/teammates/test_tools_paths.py -k roots",
    ),
    Break(
        "a file that changed since it was read is edited",
        "teammates/tools/paths.py",
        "    if known is not None and known != found.digest:",
        "    if known == '':",
        "tests/teammates/test_tools_paths.py -k changed",
    ),
    Break(
        "an edit drops the newline at the end",
        "teammates/tools/paths.py",
        '        edited += "\\n"\n',
        '        edited += ""\n',
        "tests/teammates/test_tools_paths.py -k newline",
    ),
    Break(
        "a repository says what can be read outside of it",
        "console/settings.py",
        '    return given.origin == "repository" and (name in NEVER_FROM_REPOSITORY or',
        '    return given.origin == "repository" and (name == "" or',
        "tests/console/test_settings.py -k outside",
    ),
    Break(
        "hooks are run",
        "worktrees/git.py",
        '    "core.hooksPath=/dev/null",\n',
        "",
        "tests/worktrees/test_hostile.py -k hook",
    ),
    Break(
        "the file system's monitor is run",
        "worktrees/git.py",
        '    "core.fsmonitor=false",\n',
        "",
        "tests/worktrees/test_hostile.py",
    ),
    Break(
        "filters of the repository's own are run",
        "worktrees/git.py",
        "            if repositorys:\n                foreign.add(key)",
        "            if repositorys and key == '':\n                foreign.add(key)",
        "tests/worktrees/test_hostile.py",
    ),
    Break(
        "variables of the environment reach git",
        "worktrees/git.py",
        "for name in _KEPT if name in os.environ}",
        "for name in os.environ if name in _KEPT or name.startswith('GIT_')}",
        "tests/worktrees/test_hostile.py -k variables",
    ),
    Break(
        "the common directory is not pinned",
        "worktrees/git.py",
        'self.common_dir), "GIT_COMMON_DIR": str(self.common_dir)}\n        git_dir',
        "self.common_dir)}\n        git_dir",
        "tests/worktrees/test_hostile.py -k begins",
    ),
    Break(
        "where the files are is the repository's to say",
        "worktrees/git.py",
        '            pins |= {"GIT_DIR": str(where.metadata), "GIT_WORK_TREE": str(where.path)}',
        '            pins |= {"GIT_DIR": str(where.metadata)}',
        "tests/worktrees/test_hostile.py -k work_lies",
    ),
    Break(
        "git in a submodule is asked what changed there",
        "worktrees/trees.py",
        'NO_SUBMODULES = "--ignore-submodules=dirty"',
        'NO_SUBMODULES = "--ignore-submodules=none"',
        "tests/worktrees/test_hostile.py",
    ),
    Break(
        "programs are looked for in the worktree",
        "worktrees/git.py",
        "os.pathsep.join(each for each in entries if Path(each).is_absolute())",
        "os.pathsep.join(entries)",
        "tests/worktrees/test_hostile.py -k looked_for",
    ),
    Break(
        "what a git started lives on past its time",
        "worktrees/git.py",
        "            os.killpg(process.pid, signal.SIGKILL)",
        "            process.kill()",
        "tests/worktrees/test_hostile.py -k hangs",
    ),
    Break(
        "git waits for a pipe",
        "worktrees/trees.py",
        "    remove_pipes(where)\n",
        "",
        "tests/worktrees/test_hostile.py -k pipe --timeout 20",
    ),
    Break(
        "missing objects are fetched",
        "worktrees/git.py",
        '"GIT_NO_LAZY_FETCH": "1",\n        "GIT_ALLOW_PROTOCOL": "none",',
        '"GIT_ALLOW_PROTOCOL": "ext:file:ssh",',
        "tests/worktrees/test_hostile.py -k fetched",
    ),
    Break(
        "an option may stand where a name is expected",
        "worktrees/merging.py",
        '"--no-textconv", END, f"{base}...',
        '"--no-textconv", f"{base}...',
        "tests/test_doors.py",
    ),
    Break(
        "the boundary of an envelope is always the same",
        "mailbox/envelope.py",
        "    while boundary is None or not boundary or boundary in inside:\n        boundary = secrets.token_hex(12)",
        "    boundary = boundary or '5f0c2d9a1b3e4f5061728394'",
        "tests/mailbox/test_envelope.py tests/acceptance/test_injection.py",
    ),
    Break(
        "what is invisible to a person is told to a model",
        "mailbox/envelope.py",
        '    return CONTROL.sub("", text)',
        "    return text",
        "tests/mailbox/test_envelope.py tests/acceptance/test_injection.py",
    ),
    Break(
        "a task's description has no envelope",
        "teammates/teammate.py",
        'wrapped("description", task.description, by=task.created_by)',
        "task.description",
        "tests/acceptance/test_injection.py",
    ),
    Break(
        "a journal keeps secrets",
        "teammates/journal.py",
        '    found = {key: files.redacted_value(value) for key, value in record.items() if key != "content"}',
        '    found = {key: value for key, value in record.items() if key != "content"}',
        "tests/acceptance/test_secrets.py",
    ),
    Break(
        "an answer of a model keeps secrets",
        "teammates/journal.py",
        'each if each.get("type") in SIGNED else files.redacted_value(each)',
        "each",
        "tests/test_redaction.py tests/acceptance/test_secrets.py",
    ),
    Break(
        "a thought is changed",
        "teammates/journal.py",
        'each if each.get("type") in SIGNED else files.redacted_value(each)',
        "files.redacted_value(each)",
        "tests/test_redaction.py",
    ),
    Break(
        "records keep secrets",
        "files/writing.py",
        "    data = data if as_is else redacted_bytes(data)\n",
        "",
        "tests/test_redaction.py tests/acceptance/test_secrets.py",
    ),
    Break(
        "an output keeps secrets",
        "teammates/output.py",
        "self._secrets.feed(self._readable.feed(data, last=last), last=last)",
        "self._readable.feed(data, last=last)",
        "tests/test_redaction.py tests/acceptance/test_secrets.py",
    ),
    Break(
        "a secret in two pieces is let through",
        "files/redaction.py",
        "            if any(form.startswith(end) for form in _Known.forms):",
        "            if not end:",
        "tests/test_redaction.py",
    ),
    Break(
        "the values of .env are no secrets",
        "console/hidden.py",
        "        found.update(_secret(name, value))",
        "        found.update(())",
        "tests/acceptance/test_secrets.py",
    ),
    Break(
        "what a view shows is not cleaned at its door",
        "console/paint.py",
        '        text = _UNSEEMLY.sub(lambda found: found[1] if found[1] and self.colour else "", self._shown(text))',
        "        text = self._shown(text)",
        "tests/console/test_hostile_text.py",
    ),
    Break(
        "foreign text is not cleaned where it is put in",
        "files/shown.py",
        'redacted(CONTROL.sub("", text[: cap * 2 + 4096]))',
        "redacted(text[: cap * 2 + 4096])",
        "tests/console/test_hostile_text.py tests/test_redaction.py",
    ),
    Break(
        "JSON carries control characters",
        "files/shown.py",
        "    return CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], text)",
        "    return text",
        "tests/console/test_hostile_text.py",
    ),
    # ---------------------------------------------------------------- the sandbox
    Break(
        "commands keep their capabilities",
        "teammates/sandbox/bubblewrap.py",
        '"--cap-drop", "ALL", ',
        "",
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "the environment that bubblewrap starts with is not emptied",
        "teammates/sandbox/bubblewrap.py",
        'outer = {name: env[name] for name in ("COTERIE_COMMAND",) if name in env}',
        "outer = dict(os.environ)",
        "tests/sandbox/test_probe.py -k mark",
    ),
    Break(
        "commands share the network of the host",
        "teammates/sandbox/bubblewrap.py",
        '"--unshare-cgroup-try", "--unshare-net")',
        '"--unshare-cgroup-try")',
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "commands share the processes of the host",
        "teammates/sandbox/bubblewrap.py",
        '"--unshare-pid", ',
        "",
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "commands may make user namespaces",
        "teammates/sandbox/bubblewrap.py",
        '*(("--disable-userns",) if self._disable_userns else ())',
        "",
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "no system call is filtered",
        "teammates/sandbox/bubblewrap.py",
        '        options += ["--seccomp", data(filter_)] if filter_ else []\n',
        "        del filter_\n",
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "io_uring is not filtered",
        "teammates/sandbox/seccomp.py",
        "for number in known.io_uring:",
        "for number in known.io_uring[:0]:",
        "tests/sandbox/test_filter.py",
    ),
    Break(
        "the architecture of a system call is not looked at",
        "teammates/sandbox/seccomp.py",
        "(_EQUAL, 1, 0, known.audit)",
        "(_EQUAL, 1, 1, known.audit)",
        "tests/sandbox/test_filter.py",
    ),
    Break(
        "unix sockets reach the host where the network is on",
        "teammates/sandbox/bubblewrap.py",
        "unix_sockets=not network or self.rules.unix_sockets",
        "unix_sockets=True",
        "tests/sandbox/test_network.py",
    ),
    Break(
        "the kernel's settings in /proc can be written as root",
        "teammates/sandbox/bubblewrap.py",
        '"--remount-ro", "/proc", ',
        "",
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "a worktree's .git is mounted writable",
        "teammates/sandbox/bubblewrap.py",
        'mounts.append(("--ro-bind-data", data(seen.link), str(cwd / ".git")))',
        'mounts.append(("--bind", str(cwd / ".git"), str(cwd / ".git")))',
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "refs are mounted writable",
        "teammates/sandbox/bubblewrap.py",
        'mounts += [("--ro-bind", str(each), str(each)) for each in seen.shown]',
        'mounts += [("--bind", str(each), str(each)) for each in seen.shown]',
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "a command that may not write is given a writable worktree",
        "teammates/sandbox/bubblewrap.py",
        '"--bind" if writable else "--ro-bind"',
        '"--bind"',
        "tests/sandbox/test_ending.py -k may_not_write",
    ),
    Break(
        "a link in /tmp leads a mount elsewhere",
        "teammates/sandbox/bubblewrap.py",
        "        space.hold(firsts)\n",
        "",
        "tests/sandbox/test_git.py -k link_in",
    ),
    Break(
        "what is left of a command outlives its bubblewrap",
        "teammates/sandbox/bubblewrap.py",
        ', "--die-with-parent"',
        "",
        "tests/sandbox/test_ending.py -k nobody_watches",
    ),
    Break(
        "git's settings are shown with their secrets",
        "worktrees/view.py",
        "if section in _LEFT_OUT or key in _NAMES or _SECRET_NAMES.fullmatch(name):",
        "if section == '':",
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "URLs in git's settings keep their passwords",
        "worktrees/view.py",
        'return _QUERY.sub(r"\\g<scheme>", _USERINFO.sub(r"\\g<scheme>", text))',
        "return text",
        "tests/sandbox/test_attacks.py",
    ),
    Break(
        "git for commands does not see what the runtime committed",
        "teammates/sandbox/gitview.py",
        "if mark is not None and self._indexes.get(seen.worktree) != mark:",
        "if mark is not None and seen.worktree not in self._indexes:",
        "tests/sandbox/test_git.py -k has_committed",
    ),
    Break(
        "home and /tmp of commands outlive the assignment",
        "teammates/sandbox/space.py",
        "if self._said() == key:",
        "if self._said() is not None:",
        "tests/sandbox/test_git.py -k new_assignment",
    ),
    Break(
        "git in front of git lets everything through",
        "teammates/sandbox/git.sh",
        '[ "$(asked "$@")" = "@METADATA@" ] || exec "$real" "$@"',
        'exec "$real" "$@"',
        "tests/sandbox/test_git.py -k refused_at_once",
    ),
    Break(
        "commands may use as much as they like",
        "teammates/sandbox/limits.py",
        "return {name: max(most, 0) for name, most in wanted.items() if most}",
        "return dict.fromkeys(wanted, 1 << 40)",
        "tests/sandbox/test_ending.py -k are_limited",
    ),
    Break(
        "a folder with keys is shown since PATH names it",
        "teammates/sandbox/toolchains.py",
        "        not _SECRET.intersection(each.parts) and _covered",
        "        _covered",
        "tests/sandbox/test_network.py -k toolchains",
    ),
    Break(
        "a setting may show home",
        "teammates/sandbox/toolchains.py",
        "if (covered := _covered(path, hidden)) is not None:",
        "if (covered := _covered(path, ())) is not None:",
        "tests/sandbox/test_network.py -k would_show",
    ),
    Break(
        "a repository's own file opens the sandbox",
        "console/settings.py",
        "(name in NEVER_FROM_REPOSITORY or _opens(name, checked(name, given)))",
        "name in NEVER_FROM_REPOSITORY",
        "tests/console/test_settings.py",
    ),
    Break(
        "the probe always says full",
        "teammates/sandbox/probe.py",
        "return (Level.PARTIAL if broken else Level.FULL)",
        "return (Level.FULL if broken else Level.FULL)",
        "tests/sandbox/test_probe.py",
    ),
    Break(
        "below full a run is not refused",
        "lead/boundary.py",
        "if found.level is not Level.FULL and not unsafe:",
        "if found.level is None and not unsafe:",
        "tests/sandbox/test_probe.py -k below_full",
    ),
    Break(
        "views say full whatever the hosts found",
        "console/places.py",
        'return "full" if level == "full" else "none"',
        'return "full" if level else "full"',
        "tests/console/test_looking.py",
    ),
]
KEPT = "\n\n_kept: dict[object, PlanState] = {}\n"
EXTRA = '''

class _Open:
    """No lock between threads at all."""

    depth = 1

    def acquire(self, end: float, cancel: object) -> bool:
        return True

    def release(self) -> bool:
        return True

    def hand_over(self) -> None:
        pass
'''


def main(words: list[str]) -> int:
    chosen = [each for each in BREAKS if not words or any(word in each.says for word in words)]
    bad = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number, each in enumerate(chosen):
            began = time.monotonic()
            copy = Path(folder) / str(number)
            red = tried(each, copy)
            shutil.rmtree(copy, ignore_errors=True)
            bad += not red
            print(f"{'red  ' if red else 'GREEN'} {time.monotonic() - began:5.0f} s  {each.says}: {red or each.tests}")
            sys.stdout.flush()
    print(f"{len(chosen) - bad} of {len(chosen)} breaks were seen")
    return 1 if bad else 0


def tried(each: Break, copy: Path) -> str | None:
    """The test that turned red; None if all stayed green."""
    ignore = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", copy)
    path = copy / "src" / "coterie" / each.file
    text = path.read_text(encoding="utf-8")
    if (found := text.count(each.old)) != 1:
        print(f"{each.says}: expected the text to break once in {each.file}, found it {found} times: mend the list")
        return None
    text = text.replace(each.old, each.new)
    path.write_text(
        text + (EXTRA if "_Open()" in each.new else "") + (KEPT if "_kept" in each.new else ""), encoding="utf-8"
    )
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    for command in commands(each.tests, copy):
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return "it hung"
        if done.returncode != 0:
            failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "{"))]
            if not failed:
                print(f"{each.says}: the tests did not run: {(done.stdout + done.stderr)[-500:]}")
                return None
            return failed[0][:110] if failed[0][0] != "{" else f"tests/crash, {each.tests.partition('crash: ')[2]}"
    return None


def commands(tests: str, copy: Path) -> list[list[str]]:
    """What to run: pytest, then one operation of tests/crash."""
    usual, _, crash = tests.partition("crash: ")
    found = []
    if usual.strip():
        found.append([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header"])
        found[0] += [f"--basetemp={copy / 'tmp'}", *usual.split()]
    if crash:
        start, _, operation = crash.partition(": ")
        found.append([sys.executable, "-m", "tests.crash.run", str(copy / "crash"), "--every", start, operation])
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
