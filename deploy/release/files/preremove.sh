#!/bin/sh
# The argument is "remove" or "upgrade" on Debian. On Fedora it is the number of remaining versions.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
	if [ -d /run/systemd/system ]; then
		systemctl disable --now writ-coord.service writ-supervisor.service writ-runner.service writ-boot.service
	fi
fi
