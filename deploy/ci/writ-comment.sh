#!/bin/sh
# Shows a plan in a comment of the pull request (GitHub) or merge request (GitLab) of a job: writ-comment.sh FILE
#
# FILE is the output of `writ plan -o markdown`. WRIT_COMMENT_TOKEN is a token that may write comments.
# WRIT_COMMENT_NAME distinguishes several plans of a request. The comment with that name is updated if the owner of the
# token wrote it; otherwise a new one is created. Without a request or a token, the script posts no comment.
set -eu

[ $# -eq 1 ] || {
	echo "usage: writ-comment.sh FILE" >&2
	exit 2
}
file=$1 token=${WRIT_COMMENT_TOKEN:-}

note() { echo "writ-comment.sh: $1" >&2; }

fail() {
	note "$1"
	echo "  hint: $2" >&2
	exit 1
}

# github and gitlab set the parameters of their APIs: header (authentication), comments (URL of the list), one (URL
# prefix of a comment's id), update (method to change a comment), mine (filter for comments of the token's owner) and
# log (URL of the job's page).
github() {
	number=${WRIT_PULL_REQUEST:-}
	[ -n "$number" ] || number=$(printf %s "${GITHUB_REF:-}" | sed -n 's,^refs/pull/\([0-9]*\)/.*$,\1,p')
	api=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues
	token=${token:-${GITHUB_TOKEN:-}}
	header="Authorization: Bearer $token" accept=application/vnd.github+json
	comments=$api/$number/comments one=$api/comments update=PATCH
	author=${WRIT_COMMENT_AUTHOR:-github-actions[bot]}
	# shellcheck disable=SC2016 # $author is a variable of jq
	mine='.user.login == $author'
	commit=${WRIT_COMMIT:-${GITHUB_SHA:-}} log=${GITHUB_SERVER_URL:-}/$GITHUB_REPOSITORY/actions/runs/${GITHUB_RUN_ID:-}
	source=${WRIT_PULL_REQUEST_FROM:-$GITHUB_REPOSITORY} target=$GITHUB_REPOSITORY
	permission="give the job \`permissions: {contents: read, pull-requests: write}\`, and see whether the repository allows it"
}

gitlab() {
	number=${CI_MERGE_REQUEST_IID:-}
	header="PRIVATE-TOKEN: $token" accept=application/json
	comments=$CI_API_V4_URL/projects/${CI_MERGE_REQUEST_PROJECT_ID:-$CI_PROJECT_ID}/merge_requests/$number/notes one=$comments update=PUT
	# shellcheck disable=SC2016
	mine='.author.id == ($author | tonumber)'
	commit=${CI_COMMIT_SHA:-} log=${CI_JOB_URL:-}
	source=${CI_MERGE_REQUEST_SOURCE_PROJECT_ID:-} target=${CI_MERGE_REQUEST_PROJECT_ID:-}
	permission="the token is a project access token with the scope \`api\`, and its role is Reporter or more"
}

# ask METHOD URL [BODY] writes the response to a file and sets status. curl reads the token from standard input, because
# other processes can read arguments.
ask() {
	method=$1 url=$2 sent=${3:-}
	set -- --silent --show-error --proto '=http,https' --connect-timeout 20 --max-time 60 --request "$method" --header @- --header "Accept: $accept" \
		--output "$work/answer" --write-out '%{http_code}'
	[ -z "$sent" ] || set -- "$@" --header 'Content-Type: application/json' --data-binary "@$sent"
	[ -z "${CI_SERVER_TLS_CA_FILE:-}" ] || set -- "$@" --cacert "$CI_SERVER_TLS_CA_FILE"
	status=$(printf '%s\n' "$header" | curl "$@" "$url") || fail "cannot ask ${url%%\?*}" "the runner must reach it; curl takes a proxy from HTTPS_PROXY"
	case $status in
	200 | 201) return ;;
	esac
	said=$(jq -r '.message // .error // empty | tostring' "$work/answer" 2>/dev/null) || said=
	case $status in
	401 | 403 | 404)
		if [ "$source" != "$target" ]; then
			note "the token may not write to this request, as it comes from a fork (status $status): the plan is in the log and the summary only"
			exit 0
		fi
		fail "$method ${url%%\?*} is refused with status $status: $said" "$permission"
		;;
	esac
	fail "$method ${url%%\?*} is answered with status $status: $said" "try the job again"
}

# own sets id to the id of the comment with this name that the owner of the token wrote. Others may write the same mark,
# and could change their comment later.
own() {
	id='' page=1
	while [ -z "$id" ]; do
		ask GET "$comments?per_page=100&page=$page"
		id=$(jq -r --arg mark "$mark" --arg author "$author" "map(select((.body | startswith(\$mark)) and $mine))[0].id // empty" "$work/answer") ||
			fail "the answer to GET $comments is no list of comments" "see whether something between the runner and the server answers in its place"
		[ "$(jq length "$work/answer")" -eq 100 ] || break
		page=$((page + 1))
	done
}

# body builds the comment. Like the logs of CI systems, it masks the values of variables of the job whose names suggest
# a secret.
body() {
	mark="<!-- writ plan $(printf %s "${WRIT_COMMENT_NAME:-plan}" | jq -Rsr @base64) -->" # base64, so that the name cannot end the markup
	foot="${commit:+commit $commit, }[log]($log)"
	WRIT_COMMENT_TOKEN=$token jq -n --rawfile text "$file" --arg mark "$mark" --arg foot "$foot" '
		def masked: reduce ($ENV | to_entries[] | select((.key | test("(TOKEN|SECRET|PASSWORD|PASSPHRASE|CREDENTIALS?|_KEY)$")) and (.value | length >= 8)) | .value)
			as $value (.; split($value) | join("***"));
		{body: "\($mark)\n\($text | masked)\n\($foot)\n"}' >"$work/body"
}

for tool in curl jq; do
	command -v $tool >/dev/null || fail "$tool is not on the PATH" "install it in the image of the job, like: apt-get install -y $tool"
done
if [ -n "${GITHUB_API_URL:-}" ]; then
	github
elif [ -n "${CI_API_V4_URL:-}" ]; then
	gitlab
else
	fail "this is no job of GitHub or GitLab" "leave WRIT_COMMENT out; the plan is in a file"
fi
if [ -z "$number" ]; then
	note "this job is not about a pull or merge request: nothing is posted"
	exit 0
fi
if [ -z "$token" ]; then
	note "there is no token: the plan is in the log and the summary only"
	exit 0
fi
case $token in
*[[:space:]]*) fail "the token has a space or a line end" "copy it again into the secret or variable" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
if [ -z "${author:-}" ]; then
	ask GET "$CI_API_V4_URL/user"
	author=$(jq -r .id "$work/answer")
fi
body
own
if [ -n "$id" ]; then
	ask "$update" "$one/$id" "$work/body"
	note "the comment $id has the new plan"
else
	ask POST "$comments" "$work/body"
	note "the plan is in the comment $(jq -r .id "$work/answer")"
fi
