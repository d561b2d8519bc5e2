#!/bin/sh
# Installs wfrun as a user does, by pip and by pipx, from a copy of this directory and from PyPI, and
# runs it. `make package` calls it; PYTHON is the interpreter.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source"
cp -R pyproject.toml README.md LICENSE docs wfrun "$work/source"
cd "$work"
printf 'echo one\necho two\n' >tasks.txt

check() {
    "$1" --version
    "$1" --help >help.txt
    "$1" run tasks.txt --quiet
    "$1" help running >running.md
    grep -q '^# Running' running.md
}

"$PYTHON" -m venv venv
venv/bin/python -m pip --disable-pip-version-check install --quiet ./source
check venv/bin/wfrun

"$PYTHON" -m venv tools
tools/bin/python -m pip --disable-pip-version-check install --quiet pipx
export PIPX_HOME="$work/pipx" PIPX_BIN_DIR="$work/bin" PIPX_DEFAULT_PYTHON="$work/tools/bin/python"
tools/bin/pipx install --quiet ./source
check bin/wfrun
echo "pip and pipx install wfrun, and it runs"
