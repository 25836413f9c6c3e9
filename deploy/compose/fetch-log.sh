#!/bin/sh
# Fetches the binary log of a server through a connection, byte for byte, into the folder $LOG, and goes on with what is
# written later. After a restart the newest file is fetched anew, from its start; in $LOG it takes the place of the one
# that is there when it has become as long: who reads there never sees a file become shorter.
#
#     SERVER_HOST=db SERVER_USER=replica SERVER_PASSWORD_FILE=password LOG=/log sh fetch-log.sh
#
# The user needs REPLICATION SLAVE and BINLOG MONITOR (MySQL: REPLICATION SLAVE and REPLICATION CLIENT). Further options
# of the client, for TLS or a port, stand in $CLIENT_OPTIONS.
set -eu

MYSQL_PWD=$(cat "$SERVER_PASSWORD_FILE")
export MYSQL_PWD # the environment of a process is not shown to other users, its arguments are
incoming=$LOG/.incoming
mkdir -p "$incoming"
rm -f "$incoming"/*

newest=$(ls "$LOG" | grep -E '\.[0-9]{6,}$' | sort | tail -n 1 || true)
if [ -z "$newest" ]; then
    # shellcheck disable=SC2086 # they are several
    newest=$(mariadb ${CLIENT_OPTIONS:-} --host="$SERVER_HOST" --user="$SERVER_USER" --batch --skip-column-names \
        --execute='SHOW BINARY LOGS' | head -n 1 | cut -f 1)
fi

# shellcheck disable=SC2086
mariadb-binlog ${CLIENT_OPTIONS:-} --host="$SERVER_HOST" --user="$SERVER_USER" --raw --read-from-remote-server \
    --stop-never --result-file="$incoming/" "$newest" &
client=$!
trap 'kill "$client" 2>/dev/null || true' EXIT
trap 'exit 0' INT TERM

size() { stat -c %s "$1"; }

publish() {
    for file in "$incoming"/*; do
        [ -s "$file" ] || continue
        there=$LOG/${file##*/}
        if [ -e "$there" ] && { [ "$there" -ef "$file" ] || [ "$(size "$file")" -lt "$(size "$there")" ]; }; then
            continue
        fi
        ln -f "$file" "$LOG/.new"
        mv -f "$LOG/.new" "$there"
    done
}

while kill -0 "$client" 2>/dev/null; do
    publish
    sleep 1
done
publish
wait "$client"
