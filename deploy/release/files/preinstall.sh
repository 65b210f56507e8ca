#!/bin/sh
# The user of coordinators, supervisors and boot servers. It has no home and no shell.
set -e
if ! getent passwd writ >/dev/null; then
	useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin writ
fi
