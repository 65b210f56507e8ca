package main

import (
	"net/netip"
	"net/url"
	"strconv"

	"writ"
)

// checkPublished refuses an address of a coordinator that the roster cannot give to others.
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
	case notIP == nil && (ip.IsMulticast() || ip.IsLinkLocalUnicast()):
		why = "other networks do not reach it"
	}
	if why == "" {
		return nil
	}
	return writ.Errorf(writ.CodeUsage, "the roster cannot have the address %s: %s", u.Redacted(), why).
		WithHint("it looks like https://writ.example.org:7440")
}
