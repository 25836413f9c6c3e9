#!/bin/sh
# Find a Java runtime >= 17 for Spark, or install one through apt when that is possible (root on Debian or Ubuntu).
set -eu

java_major() {
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
    java=$JAVA_HOME/bin/java
else
    java=$(command -v java || true)
fi
if [ -n "$java" ]; then
    major=$(java_major "$java")
    [ "${major:-0}" -ge 17 ] && exit 0
    echo "Java ${major:-?} found at $java; Spark needs 17 or newer" >&2
fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing a Java runtime with apt-get"
    apt-get update -qq
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null 2>&1; then
            exit 0
        fi
    done
fi
echo "Install a Java runtime, 17 or newer (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME" >&2
exit 1
