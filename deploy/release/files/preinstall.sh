#!/bin/sh
# Coordinator, supervisor and boot server run as separate users without home and shell, so that none of them can read
# the keys of another. Their group writ can read the settings. Earlier versions had one user, writ, for all.
set -e
if ! getent group writ >/dev/null; then
	groupadd --system writ
fi
for role in coord supervisor boot; do
	if ! getent passwd "writ-$role" >/dev/null; then
		useradd --system --user-group --groups writ --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin "writ-$role"
	fi
done
