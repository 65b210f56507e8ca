package roster

import (
	"net/netip"
	"net/url"
	"strconv"

	"writ"
	"writ/internal/reach"
)

// checkNewName rejects an invalid name for a new object. A name in the form of an id is invalid, because arguments
// accept names and ids: it could refer to another object.
func checkNewName(what, name string) error {
	switch {
	case !writ.ValidName(name):
		return writ.Errorf(writ.CodeUsage, "%q cannot be the name of a %s", name, what).
			WithHint("use 1 to 63 lower-case letters, digits and hyphens, like web-1")
	case writ.ValidUUID(name):
		return writ.Errorf(writ.CodeUsage, "%q cannot be the name of a %s: it has the form of an id", name, what).
			WithHint("use a name like web-1")
	}
	return nil
}

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
		why = "a server can listen at this address, but no other machine can reach it"
	case u.Scheme == "http" && !reach.Loopback(u.Hostname()):
		why = "without TLS only loopback is possible"
	case notIP == nil && (ip.IsMulticast() || ip.IsLinkLocalUnicast()):
		why = "it cannot be reached from other networks"
	}
	if why == "" {
		return nil
	}
	return writ.Errorf(writ.CodeUsage, "invalid address %s for the roster: %s", u.Redacted(), why).
		WithHint("it looks like https://writ.example.org:7440")
}
