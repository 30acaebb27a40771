"""The gate: every effect in every state of plan and assignment."""

from __future__ import annotations

import itertools

import pytest

from coterie.lead.tools import LEAD_TOOLS
from coterie.teammates.gate import Holding, PlanState, refusal
from coterie.teammates.tool import Effect
from coterie.teammates.tools import TEAMMATE_TOOLS

OPEN = {(Effect.CHANGES, plan, Holding.CURRENT) for plan in (PlanState.NOT_NEEDED, PlanState.APPROVED)}


@pytest.mark.parametrize(("effect", "plan", "holding"), list(itertools.product(Effect, PlanState, Holding)))
def test_only_a_current_assignment_with_no_plan_owed_may_be_changed(
    effect: Effect, plan: PlanState, holding: Holding
) -> None:
    free = effect is not Effect.CHANGES or (effect, plan, holding) in OPEN
    assert (refusal(effect, plan, holding) is None) is free


def test_the_tools_declare_the_effects_of_the_contract() -> None:
    changes = {name for name, tool in TEAMMATE_TOOLS.items() if tool.effect is Effect.CHANGES}
    reads = {name for name, tool in TEAMMATE_TOOLS.items() if tool.effect is Effect.READS}
    assert changes == {"bash", "write_file", "edit_file", "sync"}
    assert reads == {"read_file", "glob", "grep", "list_tasks", "get_task"}
    assert not any(tool.effect is Effect.CHANGES for tool in LEAD_TOOLS.values()), "the lead does not edit"


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
