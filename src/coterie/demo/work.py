"""What the scripted teammates do, one function for each task of the demo. They are written for the desk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from coterie.demo import pieces
from coterie.demo.desk import Desk
from coterie.demo.pieces import INIT, SETTINGS, TESTS
from coterie.demo.surgery import homes, moved, ordered, register, rewired, union, unregister

__all__ = ["WORK"]

OLD_NAMES = "settings.py goes on handing out every name that moved"


def foundation(desk: Desk) -> None:
    """Paths and the log become modules, in one task: the log uses the paths."""
    begin(desk, "I look at the two sections first, and at where the checks are listed.")
    desk.read(SETTINGS, INIT)
    desk.plan(FOUNDATION_PLAN, FOUNDATION_PLAN)
    todo = ("shopfront/paths.py", "shopfront/logs.py", "CONCERNS", TESTS)
    desk.say("Paths first: the log uses them.")
    desk.list_todo(*todo)
    for concern in ("paths", "logs"):
        move(desk, concern)
    desk.say("Both get their place in CONCERNS.")
    desk.put({INIT: lambda text: register(text, "paths", "logs")})
    green(desk)
    desk.list_todo(*todo, done=True)
    hand_in(desk, "Paths and the log are modules of their own; settings hands on their names.")


def section(desk: Desk, *, concern: str, first: str, revised: str) -> None:
    """One section becomes a module."""
    begin(desk, f"I read the section about {concern} and where concerns are listed.")
    desk.read(SETTINGS, INIT)
    desk.say(f"This is how I want to move {concern}.")
    desk.plan(first, revised)
    todo = (f"shopfront/{concern}.py", "its place in settings.py", "CONCERNS", TESTS)
    if desk.returned is None:
        desk.say(f"Now the module {concern}.")
        desk.list_todo(*todo)
    move(desk, concern)
    desk.say(f"{concern} has a check, so it has to stand in CONCERNS.")
    desk.put({INIT: lambda text: register(text, concern)})
    green(desk)
    if concern == "money":
        desk.say("Whoever moves the flags should know where the amounts are now.")
        desk.tell_owner(
            pieces.FLAGS,
            "Names that moved: amount, rounded, format_money and BadAmount live in shopfront/money.py from now on; "
            "settings.py still hands them out. We both add a line to CONCERNS: should it conflict, keep both.",
        )
    desk.list_todo(*todo, done=True)
    hand_in(desk, f"The module shopfront/{concern}.py has all about {concern}; settings hands on its names.")


def imports(desk: Desk) -> None:
    """Everybody imports from where the names live; settings goes."""
    begin(desk, "Who imports from settings, and where do its names live now?")
    users = [path for path in desk.grep(r"from shopfront\.settings import") if path != SETTINGS]
    where = homes(desk.first(SETTINGS))
    desk.read(INIT, *users)
    desk.say("This is how I want to do it.")
    plan = f"Rewrite the imports in {', '.join(users)}, each name from its own module. {OLD_NAMES} until then; "
    plan += f"then delete {SETTINGS}, take it out of CONCERNS, and run {TESTS}. Nothing else changes."
    desk.plan(plan, plan)
    todo = (f"imports: {', '.join(users)}"[:300], f"delete {SETTINGS}", TESTS)
    desk.say("File by file, then settings itself." if desk.returned is None else "These still import from settings.")
    desk.list_todo(*todo)
    desk.put({path: partial(rewired, where=where) for path in users})
    desk.say("Nobody needs settings any more.")
    desk.remove(SETTINGS, again=SETTINGS in conflicts(desk))
    desk.put({INIT: lambda text: unregister(text, "settings")})
    green(desk)
    desk.list_todo(*todo, done=True)
    hand_in(desk, "Every import names the module where the name lives; settings.py is deleted.")


def about(desk: Desk) -> None:
    """A new page that uses a bit of everything: from settings while there is one, else from the modules."""
    begin(desk, "What is there to show?")
    modules = desk.glob("shopfront/*.py")
    desk.read("README.md")
    desk.say("This is the page I want to add.")
    plan = (
        "Add shopfront/about.py with a page of lines and a test for it, and name it in README.md. It takes the names "
    )
    plan += f"from where they can be imported today: {OLD_NAMES}. No existing module changes."
    desk.plan(plan, plan)
    todo = ("shopfront/about.py", "tests/test_about.py", "README.md", TESTS)
    if desk.returned is None:
        desk.say("Now the page, with a test.")
        desk.list_todo(*todo)
    page = ABOUT
    if SETTINGS not in modules:
        page = rewired(ABOUT, ABOUT_HOMES)
        desk.say("settings.py is gone: the page has to take each name from its own module.")
    desk.create({"shopfront/about.py": page, "tests/test_about.py": TEST_ABOUT})
    desk.put({"README.md": readme})
    desk.say("Does it look right, and do all tests pass?")
    green(desk, "python3 -m shopfront.about")
    green(desk)
    desk.list_todo(*todo, done=True)
    hand_in(desk, "`python3 -m shopfront.about` shows what is set, with a test; README names it.")


# ------------------------------------------------------------ what they share


def begin(desk: Desk, words: str) -> None:
    """The first words; of work that came back: what is to be repaired. Conflicts are resolved by keeping both sides."""
    if desk.returned is None:
        desk.say(words)
    elif paths := conflicts(desk):
        desk.say(
            f"It conflicts with what was merged meanwhile, in {', '.join(paths)}: I read both sides and keep both."
        )
        desk.put(dict.fromkeys(paths, lambda text: ordered(union(text))))
        desk.say("Is anything else different now?")
    else:
        desk.say("A check is red together with the others' work: I look at what they changed.")


def conflicts(desk: Desk) -> list[str]:
    """The files that the work came back for."""
    given = desk.returned.fields.get("files", "") if desk.returned is not None else ""
    return [path.strip() for path in given.split(",") if path.strip()]


def hand_in(desk: Desk, summary: str) -> None:
    """Submit, with the words that the lead gets as the report."""
    again = desk.returned is not None
    desk.say("It fits with the others' work now: I hand it in again." if again else f"Green, I hand it in. {summary}")
    desk.hand_in(summary)


def move(desk: Desk, concern: str) -> None:
    """A section out of settings into its module, and its names back in."""
    (settings,) = desk.read(SETTINGS)
    if (parts := moved(settings, concern)) is not None:
        module, left = parts
        desk.create({f"shopfront/{concern}.py": module})
        desk.put({SETTINGS: lambda text: left})


def green(desk: Desk, command: str = TESTS) -> None:
    """A check has to pass here before work is handed in."""
    ran = desk.run(command)
    if not ran.green:
        desk.stuck(f"{command} fails, and I do not know why:\n{ran.output[-1500:]}")


def readme(text: str) -> str:
    start = text.find("Everything it keeps")
    return text if start < 0 or README in text else text[:start] + README


def _plan(concern: str, names: str) -> str:
    return (
        f"Move the section {concern} of settings.py to shopfront/{concern}.py as it is ({names}). In its place an "
        f"import: {OLD_NAMES}, so that no other module changes now. Add '{concern}' to CONCERNS. Check: {TESTS}. "
        "Risk: the others add their line to CONCERNS too; if that conflicts, both lines stay."
    )


FOUNDATION_PLAN = f"Move paths, then the log, each to its module. {OLD_NAMES}. Both into CONCERNS. Check: {TESTS}."
MONEY_PLAN = _plan("money", "currencies, tax, discounts, shipping, reading and writing amounts")
FLAGS_PLAN = _plan("flags", "the table of flags, the file of overrides, enabled and set_flag")
MAIL_PLAN = _plan("mail", "templates, compose, wrap, addresses")
HASTY_MAIL_PLAN = (
    "Cut the section mail out of settings.py, paste it into shopfront/mail.py, and let notices.py and invoices.py "
    f"import from there. Add 'mail' to CONCERNS. Check: {TESTS}."
)

WORK: dict[str, Callable[[Desk], None]] = {
    pieces.FOUNDATION: foundation,
    pieces.MONEY: partial(section, concern="money", first=MONEY_PLAN, revised=MONEY_PLAN),
    pieces.FLAGS: partial(section, concern="flags", first=FLAGS_PLAN, revised=FLAGS_PLAN),
    pieces.MAIL: partial(section, concern="mail", first=HASTY_MAIL_PLAN, revised=MAIL_PLAN),
    pieces.IMPORTS: imports,
    pieces.ABOUT: about,
}
"""What is done for a task, by its subject."""

ABOUT = '''"""What is set, on one page: python3 -m shopfront.about"""

from shopfront import CONCERNS
from shopfront.settings import (
    CURRENCY,
    FLAGS,
    FREE_SHIPPING_FROM,
    SENDER,
    enabled,
    folder,
    format_money,
    log_level,
)


def page():
    """The lines of the page."""
    on = [name for name in sorted(FLAGS) if enabled(name)]
    return [
        f"checked:        {', '.join(CONCERNS)}",
        f"currency:       {CURRENCY}",
        f"free shipping:  from {format_money(FREE_SHIPPING_FROM)} on",
        f"features:       {', '.join(on) or 'none'}",
        f"mails from:     {SENDER}",
        f"data:           {folder('data')}",
        f"log level:      {log_level()}",
    ]


if __name__ == "__main__":
    print("\\n".join(page()))
'''

ABOUT_HOMES = {
    **dict.fromkeys(("CURRENCY", "FREE_SHIPPING_FROM", "format_money"), "money"),
    **dict.fromkeys(("FLAGS", "enabled"), "flags"),
    "SENDER": "mail",
    "folder": "paths",
    "log_level": "logs",
}

TEST_ABOUT = """import os

from shopfront.about import page
from tests.shop import ShopCase


class About(ShopCase):
    def test_the_page_shows_what_is_set(self):
        os.environ["SHOPFRONT_FLAG_GIFT_WRAP"] = "on"
        text = "\\n".join(page())
        self.assertIn("from 50.00 € on", text)
        self.assertIn("gift_wrap", text)
        self.assertIn(self.home, text)
"""

README = """Everything it keeps lies in `~/.shopfront`, or where `SHOPFRONT_HOME` says. What is set is shown by
`python3 -m shopfront.about`; each concern has a module of its own: paths, logs, money, flags, mail.
"""
