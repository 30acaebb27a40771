"""A team built by hand: one lead, one teammate, one task, a scripted model. Usage: hello.py REPOSITORY"""

from __future__ import annotations

import sys
from pathlib import Path

from coterie.lead import create_team, open_team, run_team
from coterie.teammates.model import Answer, ModelRequest, ScriptedModel, reply
from coterie.teammates.settings import TeamSettings


def respond(request: ModelRequest) -> Answer:
    """What each member says: a pure function of the request."""
    turn, last = len(request.messages), str(request.messages[-1])
    if "/lead#" in request.user_id:
        if turn == 1:
            task = {"ref": "hello", "subject": "Say hello", "checks": ["grep -q hello hello.txt"]}
            return reply(request, "", ("create_tasks", {"tasks": [task]}), ("spawn_teammate", {"name": "ada"}))
        if "No task is open any more" in last:
            return reply(request, "", ("finish", {"summary": "hello.txt says hello"}))
        return reply(request, "I wait for ada.")
    if turn == 1:
        return reply(request, "", ("write_file", {"path": "hello.txt", "content": "hello\n"}))
    return reply(request, "It is written.", ("submit_work", {"summary": "hello.txt says hello"}))


def main(repository: Path) -> int:
    settings = TeamSettings(teammates=1)
    root = create_team(repository, goal="Say hello", name="hello", settings=settings)
    model = ScriptedModel(respond)
    outcome = run_team(root, settings=settings, api_key=None, model=model, watch=lambda event: print(event["text"]))
    print(*(f"{task.id} {task.status}: {task.subject}" for task in open_team(root).board.tasks()), sep="\n")
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
