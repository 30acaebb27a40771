"""What commands may read besides their worktree: the system's programs, and toolchains that PATH leads to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from coterie.errors import UsageError

__all__ = ["SYSTEM_FILES", "SYSTEM_FOLDERS", "Toolchains", "bare", "check_roots", "showable", "toolchains", "veiled"]

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Bound read-only; a symbolic link is one inside too. What of them is not to be seen: `veiled`."""
_PROGRAMS = (*SYSTEM_FOLDERS, "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local")

SYSTEM_FILES = (
    *("adduser.conf", "alternatives", "bash_completion.d", "ca-certificates", "ca-certificates.conf"),
    *("crypto-policies", "debian_version", "default/locale", "fonts", "gai.conf", "group", "host.conf", "hosts"),
    *("inputrc", "issue", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf"),
    *("locale.gen", "localtime", "login.defs", "lsb-release", "magic", "magic.mime", "maven/logging", "maven/m2.conf"),
    *("mime.types", "networks", "nsswitch.conf", "os-release", "passwd", "perl", "pki/ca-trust/extracted", "pki/java"),
    *("pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "protocols", "python3", "redhat-release", "rpc"),
    *("sensors3.conf", "services", "sgml", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo"),
    *("timezone", "vim", "xml"),
    *(
        f"java-{each}-openjdk/{name}"
        for each in range(8, 31)
        for name in ("jvm-amd64.cfg", "jvm-arm64.cfg", "security")
    ),
)
"""What of /etc commands see: a list of what is known to hold no password, key or token, and of nothing else.
So not shadow, ssh, ssl/private, pki/tls/private, sudoers, gitconfig (a copy of it is made), pip.conf, npmrc, maven's
settings.xml, management of a Java (jmxremote.password), xdg (settings of pip and uv lie in it),
profile and bash.bashrc (which may export anything)."""

_BINS = frozenset({"bin", "sbin", "shims"})
_SECRET = frozenset({".aws", ".azure", ".config", ".docker", ".gnupg", ".kube", ".netrc", ".password-store", ".ssh"})
_NEVER_WHOLE = frozenset({".cargo", ".local"})  # programs lie in it, and passwords too
_MANAGERS = {
    ".asdf": "ASDF_DATA_DIR",
    ".goenv": "GOENV_ROOT",
    ".jenv": "JENV_ROOT",
    ".nodenv": "NODENV_ROOT",
    ".nvm": "NVM_DIR",
    ".pyenv": "PYENV_ROOT",
    ".rbenv": "RBENV_ROOT",
    ".rustup": "RUSTUP_HOME",
    ".sdkman": "SDKMAN_DIR",
    ".volta": "VOLTA_HOME",
}
"""Folders of version managers, which their programs need whole, and the variable that leads there when home is
another one. None of them keeps a password or a key."""
_MOST = 2000  # entries of one folder of programs that are looked at


class Toolchains:
    """What is bound read-only for one PATH, and the variables that lead programs there."""

    def __init__(self, roots: Iterable[Path], variables: dict[str, str]) -> None:
        # Where each is seen, and what is bound there: without a link, which a command could lead elsewhere meanwhile.
        self.roots = {each: _real(each) for each in sorted(roots)}  # a folder before what lies in it
        self.variables = variables


def check_roots(names: Sequence[str], *, hidden: Sequence[Path]) -> list[Path]:
    """The folders that a setting adds. Raises `UsageError` for one that is not there, or would show what is hidden."""
    found = []
    for name in names:
        path = Path(name).expanduser()
        if not path.is_absolute() or not path.exists():
            raise UsageError(f"sandbox_read_only: expected a folder or file that is there, found {name!r}")
        path = _real(path)
        if (covered := _covered(path, hidden)) is not None:
            raise UsageError(f"sandbox_read_only: {name} would show commands {covered}: name a folder inside of it")
        found.append(path)
    return found


def toolchains(path: str, *, home: Path, hidden: Sequence[Path], closed: Sequence[Path]) -> Toolchains:
    """What the programs of PATH need that lies outside of the system's folders.

    Symbolic links are followed to where the program is, and a program in `X/bin` gets `X` where that is an
    installation of its own. hidden: folders that nothing bound may contain. closed: folders in which nothing is bound
    on its own account, such as the person's checkout.
    """
    roots: set[Path] = set()
    variables: dict[str, str] = {}
    todo = [Path(each) for each in path.split(os.pathsep) if each.startswith("/")]
    if (home / ".cargo" / "bin") in todo and (home / ".rustup").is_dir():
        todo.append(home / ".rustup")
    seen: set[Path] = set()
    while todo:
        given = todo.pop()
        if given in seen:
            continue
        seen.add(given)
        real = _real(given)
        root = _installation(real)
        for each in {root, given} if root != real else {given, real}:
            if not showable(each, hidden=hidden, closed=closed):
                continue
            roots.add(each)
            if each.name in _MANAGERS:
                variables[_MANAGERS[each.name]] = str(each)
        if not _is_system(real, hidden) and not _within(real, closed):
            todo += _targets(real)
    return Toolchains(_tops(roots), variables)


def showable(path: Path, *, hidden: Sequence[Path], closed: Sequence[Path]) -> bool:
    """Whether something outside of the system's folders may be bound on its own account."""
    if _is_system(path, hidden) or not path.exists():
        return False
    # as it is named and as it is: a link may lead to what is closed, or be there itself
    return all(
        not _SECRET.intersection(each.parts) and _covered(each, hidden) is None and not _within(each, closed)
        for each in (path, _real(path))
    )


def veiled(hidden: Iterable[Path]) -> list[Path]:
    """What has to be covered, since it lies in a folder of the system: a repository in /usr/src, in images often.

    Only what is there, and of folders in one another the outermost.
    """
    inside = {each for each in hidden if _in_system(each) and each.is_dir()}
    return sorted(_tops(inside - set(bare(inside))))


def bare(hidden: Iterable[Path]) -> list[Path]:
    """What cannot be covered, since the system's programs lie in it."""
    programs = [_real(Path(each)) for each in _PROGRAMS]
    return [each for each in hidden if _in_system(each) and any(name.is_relative_to(each) for name in programs)]


def _installation(place: Path) -> Path:
    """What belongs together with a folder of programs, or with one program."""
    for each in (place, *place.parents):
        if each.name in _MANAGERS:
            return each
        if each == Path("/nix/store"):
            return each
    folder = place if place.is_dir() else place.parent
    above = folder.parent
    whole = (above / "lib").is_dir() or (above / "pyvenv.cfg").is_file()
    return above if folder.name in _BINS and whole and above.name not in _NEVER_WHOLE else place


def _targets(folder: Path) -> Iterator[Path]:
    """Where the symbolic links among the programs of a folder lead to."""
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(_MOST), entries, strict=False):
                if entry.is_symlink():
                    target = _real(Path(entry.path))
                    if target.parent != folder and target.is_file():
                        yield target
                        yield target.parent if target.parent.name in _BINS else target
    except OSError:
        return


def _real(path: Path) -> Path:
    """As `Path.resolve`, which raises for links that lead in a circle: those lead nowhere, and are nothing to show."""
    return Path(os.path.realpath(path))


def _tops(roots: set[Path]) -> Iterator[Path]:
    """Those that do not lie in another of them."""
    return (each for each in roots if not any(above in roots for above in each.parents))


def _is_system(path: Path, hidden: Sequence[Path]) -> bool:
    """Whether it is seen without being bound on its own account."""
    return _in_system(path) and not _within(path, veiled(hidden))


def _in_system(path: Path) -> bool:
    return _within(path, [Path(each) for each in SYSTEM_FOLDERS])


def _within(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(each) for each in folders)


def _covered(path: Path, hidden: Sequence[Path]) -> Path | None:
    """What of `hidden` would be seen if `path` were shown."""
    return next((each for each in hidden if each.is_relative_to(path)), None)
