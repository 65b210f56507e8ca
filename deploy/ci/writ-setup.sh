#!/bin/sh
# Sees to it that a job has writ, and prints the PATH on which it is: PATH=$(writ-setup.sh)
#
# WRIT_RELEASE is where you keep a release: the URL of a directory with SHA256SUMS, or of one archive. There is no default, because the project has no
# server. WRIT_SHA256 is the digest of SHA256SUMS, or of that archive. A writ of this version that is on the PATH is taken as it is. Otherwise
# the archive for this system is downloaded to WRIT_CACHE, below its digest, and verified each time before the program is unpacked.
set -eu

fail() {
	echo "writ-setup.sh: $1" >&2
	echo "  hint: $2" >&2
	exit 1
}

# system is the name that releases have for this one.
system() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no writ for $(uname -s)" "releases are for Linux and macOS; take another runner" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) echo "${os}_amd64" ;;
	aarch64 | arm64) echo "${os}_arm64" ;;
	*) fail "there is no writ for $(uname -m)" "releases are for amd64 and arm64; take another runner" ;;
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

# fetch DIGEST URL prints the file of the cache that has this digest. It downloads the file before, unless the cache has it unchanged.
fetch() {
	address=${2%%\?*}
	kept=$cache/$1/${address##*/}
	if [ -f "$kept" ] && [ "$(digest "$kept")" = "$1" ]; then
		echo "$kept"
		return
	fi
	# The URL comes by the standard input: it can have a password, and others see arguments.
	printf 'url = "%s"\n' "$2" | curl --config - --silent --show-error --fail --location --proto '=http,https' --proto-redir '=http,https' \
		--netrc-optional --retry 3 --connect-timeout 20 --max-time 600 --output "$work/download" ||
		fail "cannot download $address" "WRIT_RELEASE is the URL of a directory with SHA256SUMS, or of one archive of writ; curl takes passwords from ~/.netrc"
	found=$(digest "$work/download")
	[ "$found" = "$1" ] ||
		fail "$address has the sha256 $found, not $1: nothing is installed" "ask the maker of the release for the digest, and do not take it from the server that has the file"
	mkdir -p "$cache/$1"
	mv -f "$work/download" "$kept"
	echo "$kept"
}

# listed FILE prints digest and name of the archive for this system in a file of checksums.
listed() {
	sed -n 's/^\([0-9a-f]\{64\}\)  \(writ_[^/ ]*_'"$system"'\.tar\.gz\)$/\1 \2/p' "$1"
}

# What is missing is said before anything is downloaded.
for tool in curl tar; do
	command -v $tool >/dev/null || fail "$tool is not on the PATH" "install it in the image of the job, like: apt-get install -y $tool"
done
command -v sha256sum >/dev/null || command -v shasum >/dev/null || fail "neither sha256sum nor shasum is on the PATH" "install coreutils in the image of the job"

release=${WRIT_RELEASE:-} want=$(printf %s "${WRIT_SHA256:-}" | tr A-F a-f)
[ -n "$release" ] || fail "WRIT_RELEASE is not set" "it is the URL where you keep a release of writ: the project has no server"
case $release in
*[\"\\[:space:]]*) fail "WRIT_RELEASE has a space, a quote or a backslash" "write them as %20, %22 and %5C" ;;
http://?* | https://?*) ;;
*) fail "WRIT_RELEASE is no URL: $release" "it begins with https:// or http://" ;;
esac
case $want in
'') fail "WRIT_SHA256 is not set" "it is what \`sha256sum\` prints for the file SHA256SUMS of the release, or for the archive if WRIT_RELEASE names one" ;;
*[!0-9a-f]*) fail "WRIT_SHA256 is no digest: $want" "it has 64 hex digits, as \`sha256sum\` prints them" ;;
esac
[ ${#want} -eq 64 ] || fail "WRIT_SHA256 has ${#want} digits, not 64" "take the whole first word that \`sha256sum\` prints"

system=$(system)
cache=${WRIT_CACHE:-${RUNNER_TOOL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}}/writ}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
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

# The name of an archive says its version. One that was renamed is not compared with what is on the PATH.
name=${url%%\?*} name=${name##*/}
case $name in
writ_*_"$system".tar.gz)
	version=${name#writ_}
	version=v${version%_"$system".tar.gz}
	if command -v writ >/dev/null && [ "$(writ version -o name 2>/dev/null)" = "$version" ]; then
		echo "writ $version is on the PATH: $(command -v writ)" >&2
		echo "$PATH"
		exit
	fi
	;;
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
[ "$found" = "$version" ] || fail "the program of $name does not say that it is $version: $found" "try another release, or another runner"
mkdir -p "$cache/$want/bin"
mv -f "$work/$top/writ" "$cache/$want/bin/writ"
echo "writ $version is installed: $cache/$want/bin/writ" >&2
[ -z "${GITHUB_PATH:-}" ] || echo "$cache/$want/bin" >>"$GITHUB_PATH" # for later steps
echo "$cache/$want/bin:$PATH"
