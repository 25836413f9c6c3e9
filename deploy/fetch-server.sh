#!/usr/bin/env bash
# Unpacks the newest MySQL or MariaDB server of Debian's unstable suite, with all its libraries, into a folder that is a
# root directory of its own: fetch-server.sh mysql|mariadb FOLDER. Nothing else of the machine changes. It needs apt,
# dpkg, root, and a Debian mirror among the machine's package sources. lab/binlog_lab/demo/mariadb/installed.py starts what is in it.
set -euo pipefail
kind=${1:?mysql or mariadb} folder=${2:?a folder}
case $kind in
    mysql) package=mysql-server-core program=mysqld ;;
    mariadb) package=mariadb-server-core program=mariadbd ;;
    *) echo "fetch-server.sh: expected mysql or mariadb, got $kind" >&2; exit 2 ;;
esac
if [ -x "$folder/usr/sbin/$program" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    echo "fetch-server.sh: $kind is left out: it takes apt-get and root" >&2
    exit 1
fi
mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
    grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ')
if [ -z "$mirror" ]; then
    echo "fetch-server.sh: $kind is left out: no Debian mirror is among the package sources" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/lists/partial "$work"/cache/archives/partial "$work"/packages
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$work/sources.list"
# Lists and state of their own: to the machine's apt nothing has happened.
apt=(
    -o APT::Sandbox::User=root
    -o Dir::Etc::sourcelist="$work/sources.list"
    -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::Lists="$work/lists"
    -o Dir::State::status=/dev/null
    -o Dir::Cache="$work/cache"
)
apt-get "${apt[@]}" -qq update
# The server and its libraries; what only installs it, or its clients in Perl, is not needed to run it.
mapfile -t packages < <(
    apt-cache "${apt[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances "$package" | grep -E '^[a-z]' | sort -u |
        grep -E "^(lib|zlib1g$|$package$|mariadb-common$|gcc-[0-9]+-base$)" | grep -vE 'perl|debconf|python'
)
(cd "$work/packages" && apt-get "${apt[@]}" -qq download "${packages[@]}")

# Debian has its programs and libraries below /usr alone; some packages still name the old places.
part=$folder.part
rm -rf "$part"
mkdir -p "$part"/{dev,proc,run,tmp,etc,data}
for name in bin sbin lib lib64; do
    mkdir -p "$part/usr/$name"
    ln -s "usr/$name" "$part/$name"
done
for file in "$work"/packages/*.deb; do
    dpkg-deb --fsys-tarfile "$file" | tar -x --keep-directory-symlink -C "$part"
done
chmod 1777 "$part/tmp"
mknod -m 666 "$part/dev/null" c 1 3
mknod -m 666 "$part/dev/zero" c 1 5
mknod -m 666 "$part/dev/random" c 1 8
mknod -m 666 "$part/dev/urandom" c 1 9
echo 'root:x:0:0:root:/:/bin/sh' >"$part/etc/passwd"
chroot "$part" "/usr/sbin/$program" --no-defaults --version
# Whole, or not at all.
rm -rf "$folder"
mv "$part" "$folder"
