# Started on a node of a batch job, as `sh batch_launcher.sh DIRECTORY KEY CONFIG`: runs the launcher.
. "$1/bin/python.sh"
if [ -z "$python" ]; then
    echo "wfrun: the compute node $(uname -n) has no Python 3.6 or later" >&2
    exit 1
fi
exec "$python" -I -S -X utf8 "$1/bin/batch_launcher.py" "$@"
