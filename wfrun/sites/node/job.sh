# Started on a compute node, as `sh job.sh DIRECTORY BATCH ELEMENT`: runs job.py, or leaves the exit
# record that says that there is no Python for it.
. "$1/bin/python.sh"
if [ -n "$python" ]; then
    exec "$python" -I -S -X utf8 "$1/bin/job.py" "$@"
fi
key=$(sed -n "${3}p" "$1/batches/$2.jsonl" | sed 's/^.*"key": *"\([^"]*\)".*$/\1/')
set -C # an exclusive creation is the claim
if : 2>/dev/null >"$1/attempts/$key.out"; then
    printf '{"key": "%s", "outcome": {"cause": "launch-failed", "host": "%s", "message": "%s"}}\n' \
        "$key" "${SLURMD_NODENAME:-$(uname -n)}" "the compute node has no Python 3.6 or later" >"$1/exits/$key.part"
    mv "$1/exits/$key.part" "$1/exits/$key.json"
fi
exit 1
