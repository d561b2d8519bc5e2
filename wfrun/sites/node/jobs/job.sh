# Started on a compute node, as `sh job.sh DIRECTORY BATCH ELEMENT`: runs job.py, or leaves the exit
# record that says that there is no Python for it.
. "$1/bin/python.sh"
if [ -n "$python" ]; then
    exec "$python" -I -S -X utf8 "$1/bin/job.py" "$@"
fi
# The key is the first member of a request. Words and variables of the task, which may look like
# one, come after it.
key=$(sed -n "${3}s/^{\"key\": *\"\([A-Za-z0-9.-]*\)\".*\$/\1/p" "$1/batches/$2.jsonl")
if [ -z "$key" ]; then
    echo "wfrun: $1/batches/$2.jsonl has no request in line $3" >&2
    exit 1
fi
# The batch system's name of the node: see NodeFacts of ``wfrun.sites.batch.node_facts``.
node=$(sed -n 's/^.*"node":"\([A-Z0-9_]*\)".*$/\1/p' "$1/bin/batch_system.json")
[ -z "$node" ] || eval "node=\$$node"
if (set -C && : >"$1/attempts/$key.out") 2>/dev/null; then # an exclusive creation is the claim
    printf '{"key": "%s", "outcome": {"cause": "launch-failed", "host": "%s", "message": "%s"}}\n' \
        "$key" "${node:-$(uname -n)}" "the compute node has no Python 3.6 or later" >"$1/exits/$key.part"
    mv "$1/exits/$key.part" "$1/exits/$key.json"
fi
exit 1
