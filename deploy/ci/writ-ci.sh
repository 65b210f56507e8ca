#!/bin/sh
# Checks, plans or submits a script in a CI job: writ-ci.sh check|plan|submit FILE [FLAG...]
# Or installs writ and prints a PATH that contains it: writ-ci.sh setup
#
# WRIT_RELEASE and WRIT_SHA256 name the release of writ for the job: see writ-setup.sh. Without WRIT_RELEASE, the writ
# on the PATH is used. plan and submit need the context (WRIT_CONFIG) and the key (WRIT_KEY) of the job. Each is the
# name of a file or its text, because CI systems store secrets as text. WRIT_KEY=agent uses a key of ssh-agent. Only
# plan --offline needs neither.
#
# Instead of WRIT_KEY, WRIT_CERTIFICATE may be a command that prints an SSH certificate for the public key in the file
# WRIT_PUBLIC_KEY. The key is created for this job and deleted at its end.
#
# plan writes the plan as Markdown to WRIT_PLAN_FILE (default writ-plan.md). In GitHub Actions it also writes it to the
# summary and to the output "plan". With WRIT_COMMENT=true it shows the plan in a comment of the pull or merge request:
# see writ-comment.sh.
#
# submit writes its result as JUnit XML to WRIT_JUNIT_FILE, if set, and in GitHub Actions to the summary. If WRIT_PLAN
# is set, the run is bound to that plan; the value is the digest of a reviewed plan, or the file that plan has written.
# An empty value is an error.
# WRIT_DEADLINE limits the duration of the run, and WRIT_TIMEOUT the time that submit waits. With WRIT_CANCEL=true,
# submit cancels the run after the timeout and if the job is cancelled. Otherwise the run continues.
#
# The exit code is that of writ, or 2 if the settings of the job are wrong.
set -eu

usage() {
	echo "usage: writ-ci.sh check|plan|submit FILE [FLAG...], or writ-ci.sh setup" >&2
	exit 2
}

fail() {
	echo "writ-ci.sh: $1" >&2
	echo "  hint: $2" >&2
	exit 2
}

here=$(dirname "$0")
case "${1:-} $#" in
"setup 1")
	installed=$("$here/writ-setup.sh")
	PATH=$installed
	[ -z "${GITHUB_PATH:-}" ] || echo "${PATH%%:*}" >>"$GITHUB_PATH" # for later steps
	echo "$PATH"
	exit
	;;
"check "* | "plan "* | "submit "*) [ $# -ge 2 ] || usage ;;
*)
	echo "writ-ci.sh: there is no command \"${1:-}\", or it takes no file" >&2
	usage
	;;
esac
command=$1 file=$2
shift 2

# is reports whether a boolean variable is true.
is() {
	case $2 in
	true) return 0 ;;
	'' | false) return 1 ;;
	esac
	fail "$1 is \"$2\"" "it is true or false"
}

# keep writes a secret of the CI system to a file for this job only.
keep() {
	(umask 077 && printf '%s\n' "$2" >"$kept/$1")
	echo "$kept/$1"
}

# certified creates a key for this job and obtains a certificate for it.
certified() {
	ssh-keygen -q -t ed25519 -N '' -C "$command" -f "$kept/job"
	WRIT_PUBLIC_KEY=$kept/job.pub sh -c "$WRIT_CERTIFICATE" >"$kept/made" ||
		fail "the command of the certificate failed" "it prints a certificate for the public key in the file \$WRIT_PUBLIC_KEY, and its errors stand above"
	mv "$kept/made" "$kept/job-cert.pub"
	WRIT_KEY=$kept/job-cert.pub
	export WRIT_KEY
}

# placed FLAG... reports whether flags name the cluster, or request a plan without one.
placed() {
	for flag in "$@"; do
		case $flag in
		--offline | --config | --config=* | --cluster | --cluster=*) return 0 ;;
		esac
	done
	return 1
}

# identify FLAG... ensures that context and key are files. An invalid secret is not printed.
identify() {
	case ${WRIT_CONFIG:-} in
	*contexts:*) WRIT_CONFIG=$(keep config.yaml "$WRIT_CONFIG") ;;
	'') placed "$@" || fail "WRIT_CONFIG is empty" "set it to what \`writ context export\` prints, or to the path of a file with it; a misspelled variable is empty, too; for a plan without a cluster, add --offline" ;;
	*) [ -f "$WRIT_CONFIG" ] || fail "WRIT_CONFIG is neither a file nor the text of one" "it is what \`writ context export\` prints, or the path of a file with it" ;;
	esac
	if [ -n "${WRIT_CERTIFICATE:-}" ]; then
		certified
		return
	fi
	case ${WRIT_KEY:-} in
	*-----BEGIN*'
'*)
		WRIT_KEY=$(keep key "$WRIT_KEY")
		if command -v ssh-keygen >/dev/null; then
			ssh-keygen -y -P '' -f "$WRIT_KEY" >/dev/null 2>&1 ||
				fail "WRIT_KEY is a private key that has a passphrase, or that is damaged" "store a key without a passphrase: ssh-keygen -t ed25519 -N ''"
		fi
		;;
	*-----BEGIN*) fail "WRIT_KEY is a private key without its line ends" "store the whole file of ssh-keygen as it is" ;;
	ssh-* | sk-ssh-* | ecdsa-*) fail "WRIT_KEY is a public key" "store the other file of ssh-keygen, the one without .pub" ;;
	agent | agent:*) ;;
	'') echo "writ-ci.sh: WRIT_KEY is empty, so the context says which key signs; jobs of forks get no secrets and plan with --offline, and a misspelled secret does not exist" >&2 ;;
	*) [ -f "$WRIT_KEY" ] || fail "WRIT_KEY is neither a file nor a private key" "it is the whole file of ssh-keygen that begins with -----BEGIN, its path, or \"agent\"" ;;
	esac
}

plan() {
	markdown=${WRIT_PLAN_FILE:-writ-plan.md} code=0
	writ plan "$file" "$@" -o markdown >"$markdown" || code=$?
	[ -s "$markdown" ] || printf '### writ plan: it failed\n\nThe log of the job says why.\n' >"$markdown"
	cat "$markdown"
	[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$markdown" >>"$GITHUB_STEP_SUMMARY"
	if is WRIT_COMMENT "${WRIT_COMMENT:-}"; then
		WRIT_COMMENT_NAME=${WRIT_COMMENT_NAME:-$file} WRIT_COMMENT_TOKEN=$token "$here/writ-comment.sh" "$markdown"
	fi
	# 7: --exit-code, and the plan has changes. 10: no node can execute a call now. A run of this plan would wait, so the
	# job may still submit it.
	case $code in
	0 | 7 | 10) ;;
	*) exit "$code" ;;
	esac
	if grep -q '^plan [0-9a-f]\{64\} of the script alone' "$markdown"; then
		echo "writ-ci.sh: no datacenter has previewed this plan, so it has no digest for a later submit" >&2
		exit "$code"
	fi
	found=$(digest "$markdown")
	[ -z "${GITHUB_OUTPUT:-}" ] || echo "plan=$found" >>"$GITHUB_OUTPUT"
	exit "$code"
}

# digest prints the digest of the plan in a file. A run cannot be bound to a plan without a digest.
digest() {
	found=$(sed -n 's/^plan \([0-9a-f]\{64\}\)$/\1/p' "$1" | tail -n 1)
	[ -n "$found" ] || fail "$1 has no digest of a plan that a datacenter has previewed" "writ-ci.sh plan writes such a file, without --offline"
	echo "$found"
}

submit() {
	bound=${WRIT_PLAN:-}
	[ -z "${WRIT_PLAN+set}" ] || [ -n "$bound" ] ||
		fail "WRIT_PLAN is empty" "it is what writ-ci.sh plan has put out, or the file that it has written; unset it for a run that is bound to no plan"
	case $bound in
	*[!0-9a-f]*)
		[ -f "$bound" ] || fail "WRIT_PLAN is neither a digest nor a file: $bound" "it is what writ-ci.sh plan has put out, or the file that it has written"
		bound=$(digest "$bound")
		;;
	esac
	[ -z "$bound" ] || set -- "$@" --plan "$bound"
	[ -z "${WRIT_JUNIT_FILE:-}" ] || set -- "$@" --junit "$WRIT_JUNIT_FILE"
	[ -z "${GITHUB_STEP_SUMMARY:-}" ] || set -- "$@" --summary "$GITHUB_STEP_SUMMARY"
	[ -z "${WRIT_DEADLINE:-}" ] || set -- "$@" --deadline "$WRIT_DEADLINE"
	[ -z "${WRIT_TIMEOUT:-}" ] || set -- "$@" --timeout "$WRIT_TIMEOUT"
	if is WRIT_CANCEL "${WRIT_CANCEL:-}"; then
		set -- "$@" --cancel-on-exit
	fi
	writ submit "$file" "$@" &
	writ=$! code=0
	# Some CI systems signal the cancellation of a job only to this shell. writ must handle it, to cancel the run or
	# report it.
	trap 'trap "" HUP INT TERM; kill -TERM "$writ"' HUP INT TERM
	wait "$writ" || code=$?
	while kill -0 "$writ" 2>/dev/null; do # a signal interrupted the wait
		code=0
		wait "$writ" || code=$?
	done
	[ "$code" -eq 0 ] || exit "$code"
}

token=${WRIT_COMMENT_TOKEN:-}
unset WRIT_COMMENT_TOKEN # only writ-comment.sh may see it
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
trap 'exit 1' HUP INT TERM
if [ -n "${WRIT_RELEASE:-}" ]; then
	# PATH changes only after the setup has succeeded: the trap above needs its programs.
	installed=$("$here/writ-setup.sh" "$kept/writ") || exit 2
	PATH=$installed
	export PATH
else
	echo "writ-ci.sh: WRIT_RELEASE is empty, so the job uses the writ on its PATH: $(command -v writ || echo none)" >&2
fi
command -v writ >/dev/null || fail "writ is not on the PATH" "set WRIT_RELEASE and WRIT_SHA256 to your release, or use an image that contains writ"

[ "$command" = check ] || identify "$@"
case $command in
check) writ check "$file" "$@" ;;
plan) plan "$@" ;;
submit) submit "$@" ;;
esac
