package roster

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/config"
	"writ/internal/reach"
)

// checkPublished rejects an address of a coordinator that other machines cannot use.
func checkPublished(u *url.URL) error {
	why := ""
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	ip, notIP := netip.ParseAddr(u.Hostname())
	switch {
	case u.User != nil:
		why = "every reader of the roster would see its user and password"
	case u.Hostname() == "":
		why = "it names no host"
	case u.Port() != "" && (err != nil || port == 0):
		why = "its port must be 1 to 65535"
	case notIP == nil && ip.IsUnspecified():
		why = "a server listens there, and no other machine reaches it"
	case u.Scheme == "http" && !reach.Loopback(u.Hostname()):
		why = "without TLS only loopback is possible"
	case notIP == nil && (ip.IsMulticast() || ip.IsLinkLocalUnicast()):
		why = "other networks do not reach it"
	}
	if why == "" {
		return nil
	}
	return writ.Errorf(writ.CodeUsage, "the roster cannot have the address %s: %s", u.Redacted(), why).
		WithHint("it looks like https://writ.example.org:7440")
}

// coordinatorStart returns the command that starts a coordinator with the roster address u. For a DNS name, the
// command has the placeholder ADDRESS, because the name does not show where the host listens.
func coordinatorStart(data string, u *url.URL) string {
	command := "writ coord --data " + cli.ShellWord(data)
	if u.String() == config.DefaultServer {
		return command
	}
	host, port := u.Hostname(), cmp.Or(u.Port(), "443")
	if _, err := netip.ParseAddr(host); err != nil && !reach.Loopback(host) {
		host = "ADDRESS"
	}
	return command + " --listen " + net.JoinHostPort(host, port)
}
