#!/bin/sh
# Makes .venv with $PYTHON, unless it is there and works.
set -eu
python=${PYTHON:-python3}

if .venv/bin/python -m pip --version >/dev/null 2>&1; then
    exit 0
fi
if ! command -v "$python" >/dev/null 2>&1; then
    echo "$python is not found. Install Python 3.10 or later, or name one: make PYTHON=python3.12" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "$python is $("$python" --version 2>&1), and wfrun needs Python 3.10 or later." >&2
    echo "Name another one: make PYTHON=python3.12" >&2
    exit 1
fi

rm -rf .venv
if "$python" -m venv .venv >.venv.log 2>&1; then
    rm -f .venv.log
    exit 0
fi
# Debian and Ubuntu keep the part of venv that installs pip in a package of its own. A pip or a
# virtualenv that is already there does as well.
rm -rf .venv
if "$python" -m virtualenv .venv >/dev/null 2>&1; then
    rm -f .venv.log
    exit 0
fi
rm -rf .venv
if "$python" -m venv --without-pip .venv >/dev/null 2>&1 &&
    "$python" -m pip --python .venv/bin/python install --quiet pip >/dev/null 2>&1; then
    rm -f .venv.log
    exit 0
fi
cat .venv.log >&2
rm -rf .venv .venv.log
echo "$python cannot make a virtual environment; what it said is above." >&2
echo "On Debian and Ubuntu: apt-get install python3-venv. Elsewhere: install pip for $python." >&2
exit 1
