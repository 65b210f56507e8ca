#!/bin/sh
# Coordinators, supervisors and boot servers have a user each, without a home and a shell, so that none of them reads the keys of another. All of them
# are in the group writ, which reads the settings. Earlier versions had one user, writ, for all.
set -e
if ! getent group writ >/dev/null; then
	groupadd --system writ
fi
for role in coord supervisor boot; do
	if ! getent passwd "writ-$role" >/dev/null; then
		useradd --system --user-group --groups writ --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin "writ-$role"
	fi
done
