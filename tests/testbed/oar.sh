# sh oar.sh DIRECTORY PORT USER UID: an OAR server, in namespaces of its own, until it is killed. Its
# nodes have one core, two and three, which their property `slots` says, to see tasks wait. Its ports
# are PORT (OAR), + 1 (PostgreSQL), + 2 (SSH of the nodes) and + 3 (SSH of the user). OAR reads
# /etc/oar and ~oar alone, so these, and the machine's accounts, are copies here.
set -eu
directory=$1 port=$2 user=$3 uid=$4
postgres=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
mkdir -p "$directory/lib" "$directory/log" "$directory/home" "$directory/postgres" /run/sshd
cp -a /var/lib/oar/. "$directory/lib/"
# All of /etc: a mount on /etc/passwd ends when somebody else adds a user, which replaces the file.
cp -a /etc "$directory/etc"
mount --bind "$directory/lib" /var/lib/oar
mount --bind "$directory/etc" /etc
sed -i '/^oar:/s/^oar:[^:]*:/oar:*:/' /etc/shadow
echo "$user:x:$uid:$uid::$directory/home:/bin/bash" >>/etc/passwd
echo "$user:x:$uid:" >>/etc/group
echo "$user:*:19000:0:99999:7:::" >>/etc/shadow
touch "$directory/home/.bashrc"
chown -R "$uid:$uid" "$directory/home"
chown oar "$directory/log"

set_value() { sed -i "/^#* *$1=/d" /etc/oar/oar.conf; echo "$1=\"$2\"" >>/etc/oar/oar.conf; }
set_value SERVER_PORT "$port"
set_value DB_PORT "$((port + 1))"
set_value DB_BASE_PASSWD oar
set_value DB_BASE_PASSWD_RO oar
set_value LOG_FILE "$directory/log/oar.log"
set_value OPENSSH_CMD "/usr/bin/ssh -p $((port + 2)) -e none"
set_value SCHEDULER_MIN_TIME_BETWEEN_2_CALLS 1
set_value SCHEDULER_JOB_SECURITY_TIME 1
set_value FINAUD_FREQUENCY 10
# This machine has no cpuset that a job could get, and no ping.
sed -i '/^JOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD=/d; /^CPUSET_PATH=/d; /^PINGCHECKER_/d' /etc/oar/oar.conf
set_value PINGCHECKER_GENERIC_COMMAND /bin/true

chown postgres "$directory/postgres"
run_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
run_postgres "$postgres/initdb" -D "$directory/postgres/data" -A trust -U postgres --no-sync
run_postgres "$postgres/pg_ctl" -D "$directory/postgres/data" -l "$directory/postgres/log" -w start \
    -o "-p $((port + 1)) -k $directory/postgres -c listen_addresses=127.0.0.1 -c fsync=off" </dev/null
sql() { psql -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$((port + 1))" -U "$@"; }
sql postgres -c "CREATE ROLE oar LOGIN PASSWORD 'oar'" -c "CREATE ROLE oar_ro LOGIN PASSWORD 'oar'" \
    -c "CREATE DATABASE oar OWNER oar"
for name in pg_structure default_data pg_default_admission_rules; do
    sql oar oar -f "/usr/lib/oar/database/$name.sql"
done
sql oar oar -c "GRANT SELECT ON ALL TABLES IN SCHEMA public TO oar_ro"

cat >"$directory/sshd" <<END
HostKey $directory/host_key
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
MaxSessions 100
END
printf 'StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' >/var/lib/oar/.ssh/config
/usr/sbin/sshd -f "$directory/sshd" -E "$directory/log/nodes" -o AllowUsers=oar -o PermitUserEnvironment=yes \
    -o "AcceptEnv=OAR_CPUSET OAR_USER_CPUSET OAR_USER_GPUDEVICE OAR_JOB_USER" \
    -o "ListenAddress=127.0.0.1:$((port + 2))" -o "ListenAddress=127.0.0.2:$((port + 2))" \
    -o "ListenAddress=127.0.0.3:$((port + 2))"
/usr/sbin/sshd -f "$directory/sshd" -E "$directory/log/user" -o AllowUsers="$user" \
    -o "ListenAddress=127.0.0.1:$((port + 3))" -o "AuthorizedKeysFile=$directory/authorized_keys" \
    -o "Subsystem=sftp internal-sftp"
/usr/sbin/Almighty >"$directory/log/almighty" 2>&1 </dev/null &
sleep 1
oarproperty -a core
oarproperty -a slots
for slots in 1 2 3; do
    for core in $(seq "$slots"); do
        oarnodesetting -a -h "127.0.0.$slots" -p core="$slots$core" -p cpuset="$core" -p slots="$slots"
    done
done
until ! oarnodes -s | grep -q Suspected; do
    for slots in 1 2 3; do oarnodesetting -s Alive -h "127.0.0.$slots"; done
done
touch "$directory/up"
wait
