// Package opening parses and formats the ports of a node that its operator opens for publication. It does not depend on
// the users of the ports.
package opening

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Opening is an address of a node and the ports there that containers and machines may publish.
type Opening struct {
	Address netip.Addr
	Ranges  []Range
}

// Range is a range of ports, including both ends.
type Range struct{ First, Last uint16 }

// Parse parses an opening such as "192.0.2.10:80,443,8000-8999" or "[2001:db8::10]:443".
func Parse(text string) (Opening, error) {
	at := strings.LastIndex(text, ":")
	if at < 0 || strings.HasSuffix(text, "]") {
		return Opening{}, errors.New("it has no ports")
	}
	address, err := parseAddress(text[:at])
	if err != nil {
		return Opening{}, err
	}
	o := Opening{Address: address}
	for part := range strings.SplitSeq(text[at+1:], ",") {
		r, err := parseRange(part)
		if err != nil {
			return Opening{}, err
		}
		o.Ranges = append(o.Ranges, r)
	}
	return o, nil
}

func parseAddress(text string) (netip.Addr, error) {
	inner, closed := strings.CutSuffix(text, "]")
	inner, bracketed := strings.CutPrefix(inner, "[")
	address, err := netip.ParseAddr(inner)
	switch {
	case bracketed != closed || err == nil && bracketed != address.Is6():
		return address, errors.New("an IPv6 address needs brackets, and no other address has them")
	case err != nil:
		return address, errors.New("it does not begin with an IP address")
	}
	return address.Unmap(), check(address.Unmap())
}

// check returns an error if the kernel cannot forward connections to an address.
func check(address netip.Addr) error {
	switch {
	case address.IsUnspecified():
		return errors.New("it must be one address of the node")
	case address.IsMulticast():
		return errors.New("it is a multicast address")
	case address == netip.IPv6Loopback():
		return errors.New("the kernel forwards no connections to ::1; use 127.0.0.1")
	case address.Is6() && address.IsLinkLocalUnicast():
		return errors.New("the kernel forwards no connections to link-local addresses")
	}
	return nil
}

func parseRange(text string) (Range, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || from == 0 || from > to {
		return Range{}, fmt.Errorf("%q is neither a port from 1 to 65535 nor a range such as 8000-8999", text)
	}
	return Range{uint16(from), uint16(to)}, nil
}

// String formats an opening as Parse reads it.
func (o Opening) String() string {
	ports := make([]string, 0, len(o.Ranges))
	for _, r := range o.Ranges {
		text := strconv.Itoa(int(r.First))
		if r.Last != r.First {
			text += "-" + strconv.Itoa(int(r.Last))
		}
		ports = append(ports, text)
	}
	address := o.Address.String()
	if o.Address.Is6() {
		address = "[" + address + "]"
	}
	return address + ":" + strings.Join(ports, ",")
}

// Has reports whether a port is open.
func (o Opening) Has(port int64) bool {
	for _, r := range o.Ranges {
		if port >= int64(r.First) && port <= int64(r.Last) {
			return true
		}
	}
	return false
}

// List is all openings of a node.
type List []Opening

// ParseList parses openings in the form of Parse.
func ParseList(texts []string) (List, error) {
	var all List
	for _, text := range texts {
		o, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%q opens no ports: %w", text, err)
		}
		all = append(all, o)
	}
	return all, nil
}

// Texts formats each opening.
func (l List) Texts() []string {
	var all []string
	for _, o := range l {
		all = append(all, o.String())
	}
	return all
}

// At returns the addresses where a port is open, each once.
func (l List) At(port int64) []netip.Addr {
	var all []netip.Addr
	seen := map[netip.Addr]bool{}
	for _, o := range l {
		if o.Has(port) && !seen[o.Address] {
			seen[o.Address] = true
			all = append(all, o.Address)
		}
	}
	return all
}

// Find returns the first open port that is acceptable, in the order of the openings.
func (l List) Find(acceptable func(port int64) bool) (port int64, ok bool) {
	for _, o := range l {
		for _, r := range o.Ranges {
			for port := int64(r.First); port <= int64(r.Last); port++ {
				if acceptable(port) {
					return port, true
				}
			}
		}
	}
	return 0, false
}
