#!/bin/sh
# The data below /var/lib and the user stay: they are of your cluster, and the data has its keys.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
