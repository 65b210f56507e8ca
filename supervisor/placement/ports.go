package placement

import (
	"fmt"
	"strings"

	"writ"
	"writ/internal/opening"
)

// Port is a port of a node that a call publishes. Number is 0 if any free port is acceptable.
type Port struct {
	Protocol string
	Number   int64
}

// String formats the port: "8080/tcp".
func (p Port) String() string { return fmt.Sprintf("%d/%s", p.Number, p.Protocol) }

// PortRequest is a port that a call publishes.
type PortRequest struct {
	Port
	Share string // calls and resources with the same Share can have the same port; "" forbids sharing
}

// PortUse describes the users of a published port of a node.
type PortUse struct {
	User       string // the first user, "container web"
	Containers int    // number of users
	Share      string // name under which the project of the request can share the port; "" if it cannot
}

// conflictsWith reports whether two requests cannot be on one node.
func (p PortRequest) conflictsWith(o PortRequest) bool {
	return p.Number != 0 && p.Port == o.Port && (p.Share == "" || p.Share != o.Share)
}

// sharers returns the number of containers of a node that share ports of a request.
func (c *Candidate) sharers(ports []PortRequest) (n int) {
	for _, p := range ports {
		if p.Share != "" {
			n += c.Ports[p.Port].Containers
		}
	}
	return n
}

// opens returns the open ports of a node.
func (c *Candidate) opens() opening.List {
	driver := driverOf(c, "network")
	if driver == nil {
		return nil
	}
	open, _ := opening.ParseList(driver.Opens) // a node with an invalid opening opens no ports
	return open
}

// refuseClosed returns the reason if the operator of a node does not open these ports, or an empty code. It does not
// refuse a node that has not reported its drivers yet.
func refuseClosed(ports []PortRequest, c *Candidate) writ.NodeVerdict {
	if len(ports) == 0 {
		return writ.NodeVerdict{}
	}
	open := c.opens()
	for _, p := range ports {
		switch {
		case len(c.Drivers) == 0:
		case len(open) == 0:
			return unsuitable(writ.VerdictPortClosed, "opens no ports")
		case p.Number != 0 && len(open.At(p.Number)) == 0:
			return unsuitable(writ.VerdictPortClosed,
				fmt.Sprintf("does not open port %d, it opens %s", p.Number, strings.Join(open.Texts(), " and ")))
		}
	}
	return writ.NodeVerdict{}
}

// repeated returns the first port of a list that conflicts with an earlier port, or zero.
func repeated(ports []PortRequest) Port {
	if len(ports) < 2 {
		return Port{}
	}
	first := make(map[Port]PortRequest, len(ports))
	for _, p := range ports {
		if earlier, known := first[p.Port]; known && p.conflictsWith(earlier) {
			return p.Port
		}
		first[p.Port] = p
	}
	return Port{}
}

// refuseTaken returns the reason if other resources publish these ports of a node, or an empty code. `twice` is the
// port that occurs twice in `ports`, or zero.
func refuseTaken(ports []PortRequest, twice Port, c *Candidate) writ.NodeVerdict {
	for _, p := range ports {
		use := c.Ports[p.Port]
		if use.User != "" && p.conflictsWith(PortRequest{p.Port, use.Share}) {
			return unsuitable(writ.VerdictPortTaken, fmt.Sprintf("has port %s published by %s", p, use.User))
		}
	}
	if twice != (Port{}) {
		return unsuitable(writ.VerdictPortTaken, fmt.Sprintf("cannot publish port %s twice", twice))
	}
	return writ.NodeVerdict{}
}

// PortError returns the error of a call whose resource is on a node and cannot have these ports there, or nil.
func PortError(ports []PortRequest, c *Candidate) *writ.Error {
	for _, against := range []writ.NodeVerdict{refuseClosed(ports, c), refuseTaken(ports, repeated(ports), c)} {
		if against.Code != "" {
			against.Name = c.Name
			return portError([]writ.NodeVerdict{against}, against.Name+" "+against.Reason)
		}
	}
	return nil
}

// portError returns the error of calls if all nodes lack only ports. It returns nil if a node is unsuitable for another
// reason.
func portError(unsuitable []writ.NodeVerdict, why string) *writ.Error {
	code := writ.CodePortClosed
	for _, a := range unsuitable {
		switch a.Code {
		case writ.VerdictPortClosed:
		case writ.VerdictPortTaken:
			code = writ.CodePortTaken
		default:
			return nil
		}
	}
	if len(unsuitable) == 0 {
		return nil
	}
	err := writ.Errorf(code, "%s", why)
	if code == writ.CodePortClosed {
		return err.WithHint("publish an open port, or port 0 for any; the operator of a node opens ports with `writ runner --publish`")
	}
	return err.WithHint("publish another port, or port 0 for any free one")
}
