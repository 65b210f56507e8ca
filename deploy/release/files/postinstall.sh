#!/bin/sh
# Nothing is started by itself. What runs is started again with the new program: runs and resources go on meanwhile.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart writ-coord.service writ-supervisor.service writ-runner.service writ-boot.service
fi
