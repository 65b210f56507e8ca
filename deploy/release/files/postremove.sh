#!/bin/sh
# The data below /var/lib and the users stay: they belong to your cluster, and the data contains its keys.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
