#!/bin/sh
# Checks, plans or submits a script in a CI job: writ-ci.sh check|plan|submit FILE [FLAG...]
# It needs writ on the PATH, and for plan and submit the context (WRIT_CONFIG) and key (WRIT_KEY) of the CI job.
#
# In place of WRIT_KEY, WRIT_CERTIFICATE is a command that prints an SSH certificate for the public key whose file WRIT_PUBLIC_KEY names. The key is
# made for this job and removed at its end.
#
# plan writes the plan as Markdown to WRIT_PLAN_FILE (writ-plan.md if that is not set) and, in GitHub Actions, to the summary and as the
# output "plan". submit writes its result as JUnit XML to WRIT_JUNIT_FILE if that is set. It runs what WRIT_PLAN says, the digest of a plan that was reviewed, or whatever the script does if that is not set.
set -eu

usage() {
	echo "usage: writ-ci.sh check|plan|submit FILE [FLAG...]" >&2
	exit 2
}

[ $# -ge 2 ] || usage
command=$1 file=$2
shift 2

# certified makes a key for this job, and has a certificate made of it.
certified() {
	keys=$(mktemp -d)
	trap 'rm -rf "$keys"' EXIT
	trap 'exit 1' HUP INT TERM
	ssh-keygen -q -t ed25519 -N '' -C "$command" -f "$keys/job"
	if ! WRIT_PUBLIC_KEY=$keys/job.pub sh -c "$WRIT_CERTIFICATE" >"$keys/made"; then
		echo "writ-ci.sh: the command of the certificate failed" >&2
		exit 1
	fi
	mv "$keys/made" "$keys/job-cert.pub"
	WRIT_KEY=$keys/job-cert.pub
	export WRIT_KEY
}

if [ -n "${WRIT_CERTIFICATE:-}" ] && [ "$command" != check ]; then
	certified
fi

case $command in
check)
	writ check "$file" "$@"
	;;
plan)
	markdown=${WRIT_PLAN_FILE:-writ-plan.md}
	writ plan "$file" "$@" -o markdown >"$markdown"
	cat "$markdown"
	digest=$(sed -n 's/^plan \([0-9a-f]\{64\}\)$/\1/p' "$markdown" | tail -n 1)
	if [ -z "$digest" ]; then # a job that submits would not be bound to this plan
		echo "writ-ci.sh: $markdown has no digest of a plan" >&2
		exit 1
	fi
	[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$markdown" >>"$GITHUB_STEP_SUMMARY"
	[ -z "${GITHUB_OUTPUT:-}" ] || echo "plan=$digest" >>"$GITHUB_OUTPUT"
	;;
submit)
	[ -z "${WRIT_PLAN:-}" ] || set -- "$@" --plan "$WRIT_PLAN"
	[ -z "${WRIT_JUNIT_FILE:-}" ] || set -- "$@" --junit "$WRIT_JUNIT_FILE"
	writ submit "$file" "$@"
	;;
*)
	usage
	;;
esac
