"""The gate: every effect in every state of role, plan, assignment, sandbox, rules and a person's answer."""

from __future__ import annotations

import itertools
from collections import Counter

from coterie.lead.tools import LEAD_COMMANDS, LEAD_TOOLS
from coterie.teammates.gate import Facts, Holding, Leave, PlanState, Way, rule
from coterie.teammates.permissions import Say, Verdict
from coterie.teammates.tool import Effect
from coterie.teammates.tools import TEAMMATE_TOOLS

PLAN_OWED = {PlanState.MISSING, PlanState.SUBMITTED, PlanState.REJECTED, PlanState.UNSOUND}
AXES = (Effect, ("lead", "teammate"), PlanState, Holding, (False, True), (False, True), Say, Leave)


def expected(facts: Facts) -> tuple[Way, bool]:
    """The contract again, in its own words: how a call may act, and whether kept from writing."""
    changes = facts.effect is Effect.CHANGES
    nothing_may_change = changes and (facts.role == "lead" or facts.plan in PLAN_OWED)
    no_place = changes and facts.role == "teammate" and facts.holding is not Holding.CURRENT
    kept = nothing_may_change and facts.runs and facts.read_only
    if no_place or (nothing_may_change and not kept) or facts.verdict.say is Say.DENY:
        return Way.SHUT, False
    if facts.verdict.say is Say.ASK and facts.leave is Leave.REFUSED:
        return Way.SHUT, False
    if facts.verdict.say is Say.ASK and facts.leave is not Leave.GIVEN:
        return Way.ASK, kept
    return (Way.READ_ONLY if kept else Way.FREE), kept


def test_the_whole_table_is_the_contract() -> None:
    ways: Counter[Way] = Counter()
    for effect, role, plan, holding, runs, read_only, say, leave in itertools.product(*AXES):
        facts = Facts(effect, role, plan, holding, runs, read_only, Verdict(say, "a rule"), leave)
        ruling = rule(facts)
        assert (ruling.way, ruling.read_only) == expected(facts), facts
        assert ruling.why or ruling.way is Way.FREE, facts
        ways[ruling.way] += 1
    assert sum(ways.values()) == 3 * 2 * 6 * 5 * 2 * 2 * 4 * 4 and set(ways) == set(Way)


def test_the_tools_declare_the_effects_of_the_contract() -> None:
    changes = {name for name, tool in TEAMMATE_TOOLS.items() if tool.effect is Effect.CHANGES}
    reads = {name for name, tool in TEAMMATE_TOOLS.items() if tool.effect is Effect.READS}
    assert changes == {"bash", "write_file", "edit_file", "sync"}
    assert reads == {"read_file", "glob", "grep", "list_tasks", "get_task"}
    assert not any(tool.effect is Effect.CHANGES for tool in LEAD_TOOLS.values()), "the lead does not edit"
    assert set(LEAD_COMMANDS) == {"bash"} == {name for name, tool in TEAMMATE_TOOLS.items() if tool.runs}


def test_the_arguments_are_those_of_the_contract() -> None:
    teammate = {
        "bash": "command timeout_s? background?",
        "stop_command": "command_id",
        "read_file": "path offset? limit?",
        "glob": "pattern",
        "grep": "pattern path? glob?",
        "write_file": "path content",
        "edit_file": "path old_text new_text",
        "todo_write": "items",
        "submit_plan": "plan",
        "submit_work": "summary no_change?",
        "give_up": "reason",
        "park": "reason blocked_by",
        "propose_tasks": "tasks",
        "sync": "",
        "list_tasks": "",
        "get_task": "task_id",
        "send_message": "to text",
        "answer_shutdown": "request_id accept reason?",
    }
    lead = {
        "create_tasks": "tasks",
        "update_task": "task_id add_blocked_by? remove_blocked_by? description? priority? requires_plan? checks?",
        "cancel_task": "task_id reason",
        "retry_task": "task_id reason",
        "release_task": "task_id reason",
        "spawn_teammate": "name role? model? prompt?",
        "review": "request_id decision feedback?",
        "request_shutdown": "name reason? deadline_s?",
        "send_message": "to text urgent?",
        "ask_human": "question",
        "list_team": "",
        "list_tasks": "",
        "get_task": "task_id",
        "read_file": "path offset? limit?",
        "glob": "pattern",
        "grep": "pattern path? glob?",
        "finish": "summary",
    }
    for tools, wanted in ((TEAMMATE_TOOLS, teammate), (LEAD_TOOLS, lead)):
        found = {
            name: " ".join(
                each if field.is_required() else f"{each}?" for each, field in tool.arguments.model_fields.items()
            )
            for name, tool in tools.items()
        }
        assert found == wanted
        for tool in tools.values():
            schema = tool.schema()
            assert schema["input_schema"]["additionalProperties"] is False and schema["description"]
