#!/bin/sh
# Debian says "remove", and "upgrade" before a newer version comes. Fedora says how many versions are left.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
	if [ -d /run/systemd/system ]; then
		systemctl disable --now writ-coord.service writ-supervisor.service writ-runner.service writ-boot.service
	fi
fi
