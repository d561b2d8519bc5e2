# Sourced: sets `python` to the first Python of this machine that is new enough, or to nothing.
python=
for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 \
    python3.7 python3.6 /usr/libexec/platform-python /usr/bin/python3 /usr/local/bin/python3 python
do
    if command -v "$name" >/dev/null 2>&1 &&
        "$name" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null; then
        python=$name
        break
    fi
done
