#!/bin/sh
# Make the virtual environment, or say what is missing. Called by make; safe to run again.
set -eu
python=$1
venv=$2

missing() {
    echo "coterie needs $1. $2" >&2
    exit 1
}

# install a system package where that is ours to do: as root on Debian and its kin
have() {
    command -v "$1" >/dev/null 2>&1 && return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq "$2" >/dev/null 2>&1 && return 0
    fi
    return 1
}

command -v "$python" >/dev/null 2>&1 || missing "python3 (3.11 or later)" "Install it, or say make PYTHON=/path/to/python3."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    missing "python 3.11 or later" "Found $("$python" --version 2>&1). Say make PYTHON=/path/to/python3.11."
have git git || missing "git 2.38 or later" "Install git."
if [ "$(uname -s)" = Linux ] && ! have bwrap bubblewrap; then
    echo "coterie: bubblewrap is missing, so a run is refused and the demo runs without a sandbox" >&2
    echo "  Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap" >&2
fi
if [ ! -x "$venv/bin/python" ]; then
    "$python" -m venv "$venv" 2>/dev/null || { have python3-venv python3-venv || true; "$python" -m venv "$venv"; } ||
        missing "the venv module of python" "On Debian: apt-get install python3-venv."
fi
echo "setting up $venv (once)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]' ||
    missing "the Python packages that pyproject.toml names" "pip could not install them: see above."
