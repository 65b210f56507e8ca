#!/bin/sh
# Installs writ for a CI job and prints a PATH that contains it: PATH=$(writ-setup.sh [DIR])
#
# WRIT_RELEASE is the URL or the absolute path of a directory with SHA256SUMS, or of one archive. It has no default,
# because the project has no server. WRIT_SHA256 is the digest of SHA256SUMS, or of that archive. A writ that is already
# on the PATH is not used: another job may have put it there, and any program can print the right version.
#
# WRIT_CACHE keeps downloaded archives between jobs, by digest. Other jobs may write to it, so no program ever runs from
# there: an archive is copied to a directory of this job, and the copy is verified and unpacked. DIR is that directory;
# by default it is a new one in RUNNER_TEMP, TMPDIR or /tmp.
set -eu

# limit is the largest file of a release, in bytes. It keeps a hostile server, share or cache from filling the disk.
limit=268435456

fail() {
	echo "writ-setup.sh: $1" >&2
	echo "  hint: $2" >&2
	exit 1
}

# system prints the name of this system in the file names of a release.
system() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "no release of writ supports $(uname -s)" "releases are for Linux and macOS; use another runner" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) echo "${os}_amd64" ;;
	aarch64 | arm64) echo "${os}_arm64" ;;
	*) fail "no release of writ supports $(uname -m)" "releases are for amd64 and arm64; use another runner" ;;
	esac
}

# digest prints the sha256 of a file.
digest() {
	if command -v sha256sum >/dev/null; then
		sha256sum <"$1" | cut -d ' ' -f 1
	else
		shasum -a 256 <"$1" | cut -d ' ' -f 1
	fi
}

# shown SOURCE prints a URL or a path for messages: without the password and the query, which may be secret.
shown() {
	source=$(printf '%s\n' "$1" | sed 's,://.*@,://,')
	printf '%s\n' "${source%%\?*}"
}

# fetch DIGEST SOURCE prints the name of a verified copy of a file of the release, in the directory of this job.
fetch() {
	address=${2%%\?*}
	copy=$work/${address##*/}
	kept=$cache/$1/${address##*/}
	if [ -f "$kept" ] && head -c "$limit" "$kept" >"$copy" 2>/dev/null && [ "$(digest "$copy")" = "$1" ]; then
		echo "$copy"
		return
	fi
	rm -f "$copy"
	download "$2" "$copy"
	found=$(digest "$copy")
	[ "$found" = "$1" ] ||
		fail "$(shown "$2") has the sha256 $found, not $1: nothing is installed" "get the digest from the person who made the release, not from the server that has the file"
	keep "$copy" "$kept"
	echo "$copy"
}

# download SOURCE FILE copies a URL or a path into a file.
download() {
	case $1 in
	/*)
		[ -f "$1" ] && head -c "$limit" "$1" >"$2" 2>/dev/null || fail "cannot read $1" "WRIT_RELEASE is the path of a directory with SHA256SUMS, or of one archive of writ; is the file share mounted in this job?"
		return
		;;
	esac
	# curl reads the URL from standard input, because it may contain a password and other processes can read arguments.
	printf 'url = "%s"\n' "$1" | (
		ulimit -f $((limit / 512)) 2>/dev/null || :
		exec curl --config - --silent --show-error --fail --location --proto '=http,https' --proto-redir '=http,https' \
			--netrc-optional --retry 3 --connect-timeout 20 --max-time 600 --output "$2"
	) || fail "cannot download $(shown "$1")" "WRIT_RELEASE is the URL of a directory with SHA256SUMS, or of one archive of writ; curl takes passwords from ~/.netrc"
}

# keep FILE NAME copies a file into the cache. A cache that cannot be written to is not an error. Another job may put a
# link in the place of the new file, so the file is opened once, as a new file, and never by its name again.
keep() {
	mkdir -p "${2%/*}" 2>/dev/null || return 0
	new=$(mktemp -u "${2%/*}/new.XXXXXXXXXX" 2>/dev/null) || return 0
	if (
		umask 022
		set -C
		cat "$1" >"$new"
	) 2>/dev/null; then
		mv -f "$new" "$2" 2>/dev/null || rm -f "$new"
	fi
}

# listed FILE prints digest and name of this system's archive, from a file of checksums.
listed() {
	sed -n 's/^\([0-9a-f]\{64\}\)  \(writ_[^/ ]*_'"$system"'\.tar\.gz\)$/\1 \2/p' "$1"
}

release=${WRIT_RELEASE:-} want=$(printf %s "${WRIT_SHA256:-}" | tr A-F a-f)

# Report missing tools before the download.
case $release in
/*) tools=tar ;;
*) tools="curl tar" ;;
esac
for tool in $tools; do
	command -v "$tool" >/dev/null || fail "$tool is not on the PATH" "install it in the image of the job, like: apt-get install -y $tool"
done
command -v sha256sum >/dev/null || command -v shasum >/dev/null || fail "neither sha256sum nor shasum is on the PATH" "install coreutils in the image of the job"

[ -n "$release" ] || fail "WRIT_RELEASE is not set" "set it to the URL or path of your release of writ: the project has no server"
case $release in
/?*) ;;
*[\"\\[:space:]]*) fail "WRIT_RELEASE has a space, a quote or a backslash" "write them as %20, %22 and %5C" ;;
http://?* | https://?*) ;;
*) fail "WRIT_RELEASE is neither a URL nor an absolute path: $(shown "$release")" "it starts with https://, http:// or /" ;;
esac
case $want in
'') fail "WRIT_SHA256 is not set" "set it to the digest that \`sha256sum SHA256SUMS\` prints in the release, or to the digest of the archive if WRIT_RELEASE names one" ;;
*[!0-9a-f]*) fail "WRIT_SHA256 is not a digest: $want" "it has 64 hex digits, as \`sha256sum\` prints them" ;;
esac
[ ${#want} -eq 64 ] || fail "WRIT_SHA256 has ${#want} digits, not 64" "take the whole first word that \`sha256sum\` prints"

system=$(system)
cache=${WRIT_CACHE:-${RUNNER_TOOL_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}}/writ}
if [ $# -gt 0 ]; then
	mkdir -p "$1"
	own=$(cd "$1" && pwd)
else
	own=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/writ.XXXXXX")
fi
work=$own/download installed=''
mkdir "$work"
trap 'rm -rf "$work"; [ -n "$installed" ] || rmdir "$own/bin" "$own" 2>/dev/null || :' EXIT
trap 'exit 1' HUP INT TERM

url=$release
case ${release%%\?*} in
*.tar.gz) ;;
*)
	sums=$(fetch "$want" "${release%/}/SHA256SUMS")
	found=$(listed "$sums")
	case $found in
	'') fail "the release has no archive for $system" "its SHA256SUMS names: $(sed -n 's/^[0-9a-f]*  \(writ_.*\.tar\.gz\)$/\1/p' "$sums" | tr '\n' ' ')" ;;
	*'
'*) fail "the release has several archives for $system" "keep each version in a directory of its own" ;;
	esac
	want=${found%% *} url=${release%/}/${found#* }
	;;
esac

name=${url%%\?*} name=${name##*/}
case $name in
writ_*_"$system".tar.gz) ;;
writ_*_linux_amd64.tar.gz | writ_*_linux_arm64.tar.gz | writ_*_darwin_amd64.tar.gz | writ_*_darwin_arm64.tar.gz)
	fail "$name is for another system than this one, $system" "name the directory of the release, with the digest of its SHA256SUMS, and each runner takes its own archive"
	;;
esac

archive=$(fetch "$want" "$url")
top=$(tar -tzf "$archive" | sed -n 's,^\(writ_[^/]*_'"$system"'\)/writ$,\1,p')
[ -n "$top" ] || fail "$name has no writ for $system" "archives of writ have the directory writ_VERSION_$system with the program"
version=${top#writ_}
version=v${version%_"$system"}
tar -xzf "$archive" -C "$work" "$top/writ"
found=$("$work/$top/writ" version -o name 2>&1) || true
[ "$found" = "$version" ] || fail "the program in $name is not $version: $found" "try another release or runner, or set TMPDIR to a directory that programs may run from"
mkdir "$own/bin"
mv "$work/$top/writ" "$own/bin/writ"
installed=yes
echo "writ $version is installed: $own/bin/writ" >&2
echo "$own/bin:$PATH"
