package catalog

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The functions of this file return the reason if a text cannot be useful although its form is valid, else "". They
// check scripts before they are signed. Decode does not use them: a driver must be able to read records of earlier
// versions.

// uselessURL checks the URL of one file.
func uselessURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "it cannot be parsed"
	case u.User != nil:
		return "it contains a user or password, which every reader of the script would see"
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return "it has a fragment, which no server receives"
	case u.Path == "" || strings.HasSuffix(u.Path, "/"):
		return "it names a directory"
	case u.Scheme == "file" && u.RawQuery != "":
		return "a file has no query"
	case u.Scheme == "file" && dotted.MatchString(u.Path):
		return "its path contains . or .."
	case u.Scheme == "file":
		return ""
	case u.Hostname() == "":
		return "it names no host"
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return "its port must be 1 to 65535"
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (ip.IsUnspecified() || ip.IsMulticast()) {
		return "no server has this address"
	}
	return ""
}

// silentRanges lists source ranges whose packets never reach a network through its node.
var silentRanges = []struct {
	prefix netip.Prefix
	why    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "no host has such an address"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback addresses stay on their host"},
	{netip.MustParsePrefix("169.254.0.0/16"), "packets of link-local addresses are not forwarded"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast addresses do not send"},
	{netip.MustParsePrefix("240.0.0.0/4"), "the range is reserved"},
	{netip.MustParsePrefix("::/128"), "no host has this address"},
	{netip.MustParsePrefix("::1/128"), "loopback addresses stay on their host"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "packets have the IPv4 address instead: use that"},
	{netip.MustParsePrefix("fe80::/10"), "packets of link-local addresses are not forwarded"},
	{netip.MustParsePrefix("ff00::/8"), "multicast addresses do not send"},
}

// uselessSource checks a range of source addresses.
func uselessSource(s string) string {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return ""
	}
	for _, silent := range silentRanges {
		if silent.prefix.Bits() <= p.Bits() && silent.prefix.Contains(p.Addr()) {
			return silent.why
		}
	}
	return ""
}

// commandLineSize is COMMAND_LINE_SIZE of Linux on x86 and arm64, in bytes, including a final zero byte.
const commandLineSize = 2048

// uselessCmdline checks the command line of a kernel.
func uselessCmdline(s string) string {
	switch {
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }):
		return "kernels read only ASCII; pass other texts with cloud_init or env"
	case len(s) >= commandLineSize:
		return fmt.Sprintf("it has %d bytes, and kernels truncate it to %d", len(s), commandLineSize-1)
	case strings.Count(s, `"`)%2 != 0:
		return "a quotation mark is not closed"
	}
	return ""
}

// UselessMount returns the reason if a volume cannot be mounted at a path in a container, else "".
func UselessMount(path string) string {
	switch {
	case isBelow(path, "/proc"), isBelow(path, "/sys"), path == "/dev":
		return "it contains files of the kernel"
	case isBelow(path, "/etc/hosts"), isBelow(path, "/etc/resolv.conf"):
		return "the node writes this file in each container"
	case isBelow(path, InitPath):
		return "it is the path of the init process"
	}
	return ""
}

// uselessFiles checks the paths of the files of a container against each other and against its volumes. A file in a
// volume would change the volume, and its path could lead through a symbolic link there.
func uselessFiles(args map[string]any) (below, problem string) {
	files, _ := args["files"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		for other := range files {
			if other != path && isBelow(path, other) {
				return path, "is below another file, " + other
			}
		}
		for _, at := range volumePaths(args) {
			switch {
			case isBelow(path, at):
				return path, "is in the volume at " + at + "; use another path"
			case isBelow(at, path):
				return path, "has a volume below it, at " + at
			}
		}
	}
	return "", ""
}

// volumePaths returns the known paths of the volumes of a container.
func volumePaths(args map[string]any) (paths []string) {
	volumes, _ := args["volumes"].([]any)
	for _, v := range volumes {
		mount, _ := v.(map[string]any)
		if at, _ := mount["path"].(string); at != "" {
			paths = append(paths, at)
		}
	}
	return paths
}

// isBelow reports whether a path is a directory or below it.
func isBelow(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// uselessTmpfs checks the tmpfs of a container together with its files and volumes.
func uselessTmpfs(args map[string]any) (below, problem string) {
	all, _ := args["tmpfs"].([]any)
	files, _ := args["files"].(map[string]any)
	volumes := volumePaths(args)
	for _, each := range all {
		at, _ := each.(string)
		for path := range files {
			if isBelow(at, path) {
				return at, "is at or below the file " + path
			}
		}
		if slices.Contains(volumes, at) {
			return at, "is the path of a volume, too"
		}
	}
	return "", ""
}

// emptyFile is the SHA-256 of an empty file, the typical result of a failed download.
const emptyFile = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// uselessDigest checks the SHA-256 of a file.
func uselessDigest(s string) string {
	if s == emptyFile {
		return "this is the SHA-256 of an empty file"
	}
	return ""
}

// uselessLoginKey checks a line of authorized_keys.
func uselessLoginKey(s string) string {
	if !isLoginKey(s) {
		return "sshd ignores it, because it is truncated, has options, has an old type or is an RSA key of less than " +
			"1024 bits"
	}
	return ""
}

// UselessVariable returns the reason if /etc/environment of a machine cannot contain a value, else "".
func UselessVariable(value string) string {
	switch {
	case strings.ContainsAny(value, "\r\n"): // the next line would be another variable
		return "it has a line break, and each variable is one line"
	case strings.ContainsRune(value, '#'):
		return "it contains the character #, where pam_env truncates it"
	}
	return ""
}

// uselessHealth checks the fields of a health check together. Fields may have unknown values.
func uselessHealth(check map[string]any) (name, problem string) {
	var kinds []string
	for _, kind := range []string{"http", "tcp", "command", "image"} {
		if check[kind] != nil && check[kind] != false {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) != 1 {
		problem = "must have one of http, tcp, command and image"
		if len(kinds) > 1 {
			problem = "must have only one of " + strings.Join(kinds, " and ")
		}
		return "", problem
	}
	interval, known := check["interval_seconds"].(int64)
	timeout, _ := check["timeout_seconds"].(int64)
	switch {
	case known && timeout > interval:
		return "timeout_seconds", fmt.Sprintf("must be at most interval_seconds, which is %d, not %d", interval, timeout)
	case known && (kinds[0] == "command" || kinds[0] == "image") && interval < LeastCommandInterval:
		return "interval_seconds", fmt.Sprintf("must be at least %d for a command, not %d", LeastCommandInterval, interval)
	}
	return "", ""
}

// missingHealthPort checks that an HTTP check has a port. Arguments may have unknown and invalid values.
func missingHealthPort(args map[string]any) string {
	check, _ := args["health"].(map[string]any)
	if check["http"] == nil || check["port"] != nil {
		return ""
	}
	ports, known := args["publish"].([]any)
	if args["publish"] != nil && !known || slices.ContainsFunc(ports, isUncertainPort) {
		return ""
	}
	switch len(targetsOf(Publishing(args["publish"]))) {
	case 0:
		return "needs port: the container publishes no TCP port"
	case 1:
		return ""
	}
	return "needs port: the container publishes several TCP ports"
}

// isUncertainPort reports whether an element of publish has unknown values, or is invalid, which is reported elsewhere.
func isUncertainPort(v any) bool {
	fields, isMap := v.(map[string]any)
	_, hasPort := fields["port"].(int64)
	_, hasTarget := fields["to"].(int64)
	_, isText := fields["protocol"].(string)
	return !isMap || !hasPort || !hasTarget || fields["protocol"] != nil && !isText
}

// uselessPath checks the path of an HTTP request.
func uselessPath(s string) string {
	if _, err := url.ParseRequestURI(s); err != nil {
		return "it cannot be parsed"
	}
	if strings.Contains(s, "#") {
		return "it has a fragment, which no server receives"
	}
	return ""
}

// uselessProgram checks the first element of a command.
func uselessProgram(s string) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "it names no program"
	case strings.ContainsAny(s, "\n\r"):
		return "the name of a program cannot contain a line break"
	}
	return ""
}
