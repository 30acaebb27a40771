"""What a hostile command tries, run inside the sandbox with the standard library alone.

argv[1]: the place as JSON. Prints one JSON object: the name of each attack, and `refused: …` or what it got.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import sys

place = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
found = {}
REMOUNT, BIND, READ_ONLY = 32, 4096, 1


def attack(act):
    """Try it; a refusal is an OSError."""
    try:
        got = act()
    except OSError as error:
        found[act.__name__] = f"refused: {errno.errorcode.get(error.errno, error)}"
    else:
        found[act.__name__] = f"done: {got!r}"
    return act


def call(*arguments):
    result = libc.syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")


def write(path):
    with open(path, "a") as file:
        file.write("evil\n")


def read(path):
    with open(path, "rb") as file:
        return file.read(200).decode("utf-8", "replace")


def every(act, things):
    """The first of them that is not refused; refused if all are."""
    got = []
    refused = OSError(errno.ENOENT, "nothing there")
    for each in things:
        try:
            got.append((each, act(each)))
        except OSError as error:
            refused = error
    if got:
        return got
    raise refused


# ------------------------------------------------------------------------------------------------ writing outside


@attack
def write_by_absolute_path():
    return every(write, [folder + "/evil" for folder in place["outside"]])


@attack
def write_over_what_is_there():
    return every(write, place["files"])


@attack
def write_by_dots():
    return every(write, [os.path.join("..", os.path.relpath(path, "..")) for path in place["files"]])


@attack
def write_through_a_symlink():
    def act(path):
        os.symlink(path, "link")
        try:
            write("link")
        finally:
            os.unlink("link")

    return every(act, place["files"])


@attack
def write_through_a_hard_link():
    def act(path):
        os.link(path, "hard")
        write("hard")

    return every(act, [*place["files"], place["worktree"] + "/.git", place["metadata"] + "/HEAD", "/usr/bin/env"])


@attack
def rename_into():
    def act(folder):
        with open("moved", "w") as file:
            file.write("evil")
        os.rename("moved", folder + "/moved")

    return every(act, place["outside"])


@attack
def rename_the_worktree_itself():
    return os.rename(place["worktree"], place["worktree"] + "-moved")


@attack
def write_to_the_system():
    return every(write, ["/usr/evil", "/usr/bin/env", "/etc/passwd", "/evil", "/dev/evil", "/run/evil", "/proc/evil"])


@attack
def write_to_the_kernels_settings():
    def act(path):
        with open(path, "r+") as file:
            said = file.read()
            file.seek(0)
            file.write(said)

    return every(act, ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory"])


@attack
def remount_writable():
    flags = REMOUNT | BIND
    places = ["/", "/usr", "/etc/passwd", "/dev", place["worktree"] + "/.git", place["common"] + "/refs"]
    return every(lambda path: checked(libc.mount(None, path.encode(), None, flags, None)), places)


@attack
def mount_something():
    os.makedirs("mnt", exist_ok=True)
    kinds = [(b"/", None, BIND), (b"none", b"tmpfs", 0), (b"proc", b"proc", 0), (b"/dev/sda1", b"ext4", 0)]
    return every(lambda each: checked(libc.mount(each[0], b"mnt", each[1], each[2], None)), kinds)


@attack
def mount_by_the_new_calls():
    return every(lambda number: call(*number), [(428, -100, b"/", 1), (430, b"tmpfs", 0), (442, 0, b"", 0, None, 0)])


@attack
def unmount():
    places = [place["worktree"] + "/.git", "/proc", "/tmp", place["metadata"] + "/HEAD"]
    return every(lambda path: checked(libc.umount2(path.encode(), 2)), places)


@attack
def change_the_root():
    return every(lambda act: checked(act()), [lambda: libc.chroot(b"/tmp"), lambda: call(155, b".", b".")])


@attack
def make_a_device():
    return every(lambda kind: os.mknod("device", kind, os.makedev(8, 0)), [0o060600, 0o020600])


@attack
def look_through_another_root():
    paths = [f"/proc/{number}/{way}{path}" for number in (1, 2, "self") for way in ("root", "cwd") for path in
             place["secrets"]]  # fmt: skip
    return every(read, paths)


@attack
def use_a_descriptor_that_was_left_open():
    held = []
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                held.append(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:
                continue  # that of the listing itself
    if held:
        return held
    raise OSError(errno.EBADF, "none")


# ------------------------------------------------------------------------------------------------ reading


@attack
def read_what_is_secret():
    return every(read, place["secrets"])


@attack
def list_home_and_other_folders():
    return every(os.listdir, place["unlisted"])


@attack
def see_files_of_others_beside_what_is_shown():
    shown = []
    for folder, names in place["alone"].items():
        shown += [os.path.join(folder, each) for each in os.listdir(folder) if each not in names]
    if shown:
        return shown
    raise OSError(errno.ENOENT, "nothing else")


@attack
def read_the_systems_secrets():
    return every(read, ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/proc/kcore", "/dev/mem", "/dev/sda"])


@attack
def find_a_secret_in_any_environment_or_command_line():
    texts = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        for kind in ("environ", "cmdline"):
            try:
                with open(f"/proc/{number}/{kind}", "rb") as file:
                    texts.append(file.read())
            except OSError:
                continue
    # our own arguments have this place in them, and so does our shell's
    own = [text for text in texts if b"the place as JSON" not in text]
    if any(word.encode() in text for text in own for word in place["words"]):
        return [text.decode("utf-8", "replace")[:300] for text in own]
    raise OSError(errno.ENOENT, "none")


@attack
def find_a_secret_in_gits_settings():
    import subprocess

    said = subprocess.run(["git", "config", "--list", "--show-origin"], capture_output=True, text=True).stdout
    said += "".join(map(read, [place["common"] + "/config", "/etc/gitconfig"]))
    if "bare = " not in said:
        return "git has no settings at all"
    if any(word in said for word in place["words"]):
        return said
    raise OSError(errno.ENOENT, "none")


# ------------------------------------------------------------------------------------------------ connecting


def reach(family, kind, address):
    with socket.socket(family, kind) as end:
        end.settimeout(3)
        end.connect(address)
        end.send(b"evil")


@attack
def connect_to_an_abstract_socket():
    return reach(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + place["abstract"])


@attack
def connect_to_a_socket_in_a_folder():
    return every(lambda path: reach(socket.AF_UNIX, socket.SOCK_STREAM, path), place["sockets"])


@attack
def connect_to_the_hosts_loopback():
    return reach(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", place["tcp"]))


@attack
def send_a_datagram_abroad():
    return reach(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53))


@attack
def send_a_datagram_to_the_host():
    reach(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", place["udp"]))
    raise OSError(errno.ENETUNREACH, "the test looks whether it has arrived")


@attack
def open_a_raw_socket():
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)


# ------------------------------------------------------------------------------------------------ other processes


@attack
def signal_the_runtime():
    return every(lambda pid: os.kill(pid, 0), place["pids"])


@attack
def trace_the_runtime():
    return every(lambda pid: checked(libc.ptrace(16, pid, 0, 0)), place["pids"])


@attack
def see_the_runtime_in_the_process_table():
    return every(lambda pid: os.stat(f"/proc/{pid}/exe").st_ino if pid > 100 else os.stat("/proc/none"), place["pids"])


@attack
def make_a_namespace():
    def act(kind):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if libc.unshare(kind) == 0 else ctypes.get_errno() or 1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != 0:
            raise OSError(code, "refused")

    return every(act, [0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000])


@attack
def have_a_capability():
    for number in filter(str.isdigit, os.listdir("/proc")):  # a process that had some could be traced
        with open(f"/proc/{number}/status") as file:
            sets = {line.split(":")[0]: line.split()[1] for line in file if line.startswith(("Cap", "Seccomp:"))}
        if int(sets.pop("Seccomp")) != 2 or any(int(each, 16) for each in sets.values()):
            return number, sets
    raise OSError(errno.EPERM, "none")


@attack
def gain_rights_by_a_program():
    with open("/proc/self/status") as file:
        if "NoNewPrivs:\t1" not in file.read():
            return "setuid programs would work"
    raise OSError(errno.EPERM, "no new privileges")


# ------------------------------------------------------------------------------------------------ odd calls


@attack
def use_io_uring():
    return every(lambda number: call(number, 8, ctypes.create_string_buffer(256)), [425, 426, 427])


@attack
def use_the_kernels_keys():
    keys = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}[os.uname().machine]
    tries = [(keys[0], b"user", b"evil", b"x", 1, -3), (keys[1], b"user", b"evil", None, 0), (keys[2], 0, -3, 0)]
    return every(lambda each: call(*each), tries)


@attack
def use_calls_of_another_architecture():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if libc.syscall(0x40000000 + 39) > 0 else errno.ENOSYS)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == 0:
        return "getpid of x32"
    raise OSError(errno.ENOSYS, "ended by a signal" if code == -signal.SIGSYS else "refused")


# ------------------------------------------------------------------------------------------------ git's own files


@attack
def rewrite_dot_git():
    link = place["worktree"] + "/.git"
    return every(lambda act: act(), [lambda: write(link), lambda: os.unlink(link), lambda: os.rename(link, "x"),
                                     lambda: os.replace("one.txt", link), lambda: os.truncate(link, 0)])  # fmt: skip


@attack
def rewrite_gits_metadata():
    meta, common = place["metadata"], place["common"]
    names = [f"{meta}/{each}" for each in ("HEAD", "commondir", "gitdir")]
    names += [
        f"{common}/{each}" for each in ("config", "HEAD", "hooks/pre-commit", "info/attributes", "refs/heads/evil")
    ]
    names += [
        f"{common}/{each}" for each in ("config.worktree", "packed-refs", "refs/heads/trunk", "shallow", "logs/HEAD")
    ]
    return every(write, names)


@attack
def replace_gits_metadata():
    meta, common = place["metadata"], place["common"]

    def act(path):
        with open(path + ".evil", "w") as file:
            file.write("evil")
        os.rename(path + ".evil", path)

    return every(act, [f"{meta}/HEAD", f"{meta}/commondir", f"{meta}/gitdir", f"{common}/config", f"{common}/HEAD"])


@attack
def change_gits_settings():
    import subprocess

    def act(words):
        done = subprocess.run(["git", *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(errno.EROFS, done.stderr)
        return done.stdout

    write("one.txt")
    tries = [["config", "core.fsmonitor", "evil"], ["config", "--worktree", "core.fsmonitor", "evil"]]
    tries += [["config", "--system", "core.pager", "evil"], ["update-ref", "refs/heads/evil", "HEAD"]]
    tries += [["branch", "evil"], ["tag", "evil"], ["symbolic-ref", "HEAD", "refs/heads/trunk"], ["stash", "push"]]
    tries += [["worktree", "add", "../evil"], ["commit", "--allow-empty", "-m", "evil"], ["update-ref", "-d", "HEAD"]]
    return every(act, tries)


print("\n" + json.dumps(found))
