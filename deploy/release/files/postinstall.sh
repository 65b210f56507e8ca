#!/bin/sh
# Restarts running daemons with the new program, and starts no others. Runs and resources continue meanwhile.
set -e

running() { [ -d /run/systemd/system ] && systemctl is-active --quiet "writ-$1.service"; }

# give ROLE DIR... changes the owner of files from the user writ, which earlier versions used, to the user of a role. It
# does not follow symbolic links, and does not change files of other owners. It stops the daemon, because the old one
# would create files that the new one cannot read.
give() {
	role=$1
	shift
	for dir in "$@"; do
		if ! [ -d "$dir" ] || [ -z "$(find -P "$dir" -user writ -print -quit)" ]; then
			continue
		fi
		if running "$role"; then
			systemctl stop "writ-$role.service"
			restart="$restart writ-$role.service"
		fi
		chown -RhP --from=writ:writ "writ-$role:writ-$role" "$dir"
		chown -RhP --from=writ "writ-$role" "$dir"
	done
}

# names FILE SETTINGS reports whether a setting has the path of a file. Comments and longer paths do not count.
names() {
	[ -f "$2" ] && FILE=$1 awk '
		{
			before = ""
			for (rest = $0; at = index(rest, ENVIRON["FILE"]); ) {
				before = before substr(rest, 1, at - 1)
				rest = substr(rest, at + length(ENVIRON["FILE"]))
				plain = before
				gsub(/"[^"]*"|\047[^\047]*\047/, "", plain)
				if (plain ~ /(^|[ \t])#/) break
				if (before ~ /[ \t"\047@=,{[]$/ && rest ~ /^([ \t]*$|[ \t]+#|["\047,}\]])/) { found = 1; exit }
				before = before ENVIRON["FILE"]
			}
		}
		END { exit !found }' "$2"
}

# listed prints the files below /etc/writ that belong to the user writ of earlier versions, one per line.
listed() {
	find -P /etc/writ -type f -user writ ! -path '*
*' 2>/dev/null || true
}

restart=
if getent passwd writ >/dev/null; then
	give coord /var/lib/writ-coord
	give supervisor /var/lib/writ-supervisor /var/lib/writ-redis
	give boot /var/lib/writ-boot
	if id -nG writ | tr ' ' '\n' | grep -qx redis; then
		usermod -aG redis writ-supervisor
	fi
	# A secret beside the settings goes to the role whose settings name it, if there is exactly one.
	listed | while IFS= read -r file; do
		owner=
		for role in coord supervisor boot; do
			if names "$file" "/etc/writ/$role.yaml"; then
				owner="$owner writ-$role"
			fi
		done
		case "$owner" in
		" writ-coord" | " writ-supervisor" | " writ-boot") chown -h --from=writ "${owner# }" "$file" ;; # the user writ may have put a link in place of its directory
		*) echo "writ: the user writ is not used any more: give $file to the user of its daemon, writ-coord, writ-supervisor or writ-boot" >&2 ;;
		esac
	done
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	[ -z "$restart" ] || systemctl start $restart
	systemctl try-restart writ-coord.service writ-supervisor.service writ-runner.service writ-boot.service
fi
