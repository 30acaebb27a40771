"""The part of /etc that commands see: whole or not there, made again when it is gone, and nothing that is secret."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.sandbox.ground import Ground

from coterie.teammates.sandbox.shown import shown_settings
from coterie.teammates.sandbox.toolchains import SYSTEM_FILES

SHORT = """
import resource, sys
from pathlib import Path
from coterie.teammates.sandbox.shown import shown_settings
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
shown_settings(Path(sys.argv[1]))
"""


def whole(copy: Path) -> bool:
    there = [name for name in ("passwd", "group", "ld.so.cache", "nsswitch.conf") if Path("/etc", name).exists()]
    return all((copy / name).read_bytes() == Path("/etc", name).read_bytes() for name in there)


def test_a_copy_that_there_was_no_room_for_is_raised_and_made_whole_once_there_is(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SHORT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "File too large" in done.stderr, done.stderr
    assert not [each for each in tmp_path.iterdir() if each.is_dir()], "nothing that looks like a copy is left"
    assert whole(shown_settings(tmp_path))


def test_a_copy_that_is_not_whole_is_made_again_and_a_whole_one_is_kept(tmp_path: Path) -> None:
    copy = shown_settings(tmp_path)
    made = copy.stat().st_ino
    assert shown_settings(tmp_path).stat().st_ino == made
    (copy / "passwd").write_text("root")
    assert shown_settings(tmp_path) == copy and whole(copy)
    (copy / "gitconfig").unlink()
    assert (shown_settings(tmp_path) / "gitconfig").exists()


SECRET = """shadow gshadow sudoers ssh/ssh_host_ed25519_key ssl/private/x.key pki/tls/private/localhost.key
pki/ca-trust/source/x pki/nssdb/key4.db pki/consumer/key.pem maven/settings.xml maven/toolchains.xml xdg/pip/pip.conf
xdg/uv/uv.toml pip.conf npmrc gitconfig netrc profile profile.d/tokens.sh
java-17-openjdk/management/jmxremote.password bash.bashrc environment wgetrc"""


def test_nothing_of_etc_that_can_hold_a_secret_is_shown_and_certificates_are() -> None:
    shown = [Path(each) for each in SYSTEM_FILES]
    assert [each for each in SECRET.split() if any(Path(each).is_relative_to(top) for top in shown)] == []
    needed = ("ssl/certs/ca-certificates.crt", "pki/tls/certs/ca-bundle.crt", "pki/ca-trust/extracted/pem/x.pem")
    needed += ("java-17-openjdk/security/java.security", "java-21-openjdk/jvm-amd64.cfg", "maven/m2.conf")
    assert all(any(Path(each).is_relative_to(top) for top in shown) for each in needed)


def test_commands_go_on_when_a_person_clears_the_private_folder_meanwhile(ground: Ground) -> None:
    assert ground.run("echo one").text == "one\n"
    shutil.rmtree(ground.ada.parent / ".private")
    done = ground.run("id -un 0; git status --short | wc -l")
    assert (done.exit_code, done.text) == (0, "root\n0\n"), done.text
