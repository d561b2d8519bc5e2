# Started on a plain SSH host, as `sh launch.sh DIRECTORY CONFIG`: runs the launcher.
. "$1/bin/python.sh"
if [ -z "$python" ]; then
    echo "there is no Python 3.6 or later" >&2
    exit 1
fi
exec "$python" -I -S -X utf8 "$1/bin/launcher.py" "$2"
