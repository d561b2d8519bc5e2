# The name of batch_launcher.sh in wfrun 0.1.0: jobs that it submitted start this one.
exec /bin/sh "$1/bin/batch_launcher.sh" "$@"
