# Started on a compute node, as `sh job.sh DIRECTORY BATCH ELEMENT`: finds a Python and runs job.py,
# or leaves the exit record that says that there is none.
for python in python3 python3.12 python3.11 python3.10 python3.9 python3.8 python3.7 python3.6 \
    /usr/libexec/platform-python python; do
    if command -v "$python" >/dev/null 2>&1 &&
        "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null; then
        exec "$python" -I -S -X utf8 "$1/bin/job.py" "$@"
    fi
done
key=$(sed -n "${3}p" "$1/batches/$2.jsonl" | sed 's/^.*"key": *"\([^"]*\)".*$/\1/')
set -C # an exclusive creation is the claim
if : 2>/dev/null >"$1/attempts/$key.out"; then
    printf '{"key": "%s", "outcome": {"cause": "start", "host": "%s", "message": "%s"}}\n' \
        "$key" "$(uname -n)" "the compute node has no Python 3.6 or later" >"$1/exits/$key.part"
    mv "$1/exits/$key.part" "$1/exits/$key.json"
fi
exit 1
