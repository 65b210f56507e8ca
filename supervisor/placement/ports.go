package placement

import (
	"fmt"
	"strings"

	"writ"
	"writ/internal/opening"
)

// Port is a port of a node that a call publishes. Number is 0 if any free port will do.
type Port struct {
	Protocol string
	Number   int64
}

// String formats the port: "8080/tcp".
func (p Port) String() string { return fmt.Sprintf("%d/%s", p.Number, p.Protocol) }

// opens returns the open ports of a node.
func (c Candidate) opens() opening.List {
	for _, d := range c.Drivers {
		if d.Module == "network" {
			open, _ := opening.ParseList(d.Opens) // a node with an invalid opening opens no ports
			return open
		}
	}
	return nil
}

// refuseClosed returns the reason why the operator of a node excludes a request with these ports, or an empty code. The
// openings of a node that has not reported yet are unknown.
func refuseClosed(ports []Port, c Candidate) writ.NodeVerdict {
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

// repeated returns the first port that is twice in a list, or zero. Port 0 may be repeated.
func repeated(ports []Port) Port {
	if len(ports) < 2 {
		return Port{}
	}
	seen := make(map[Port]bool, len(ports))
	for _, p := range ports {
		if p.Number != 0 && seen[p] {
			return p
		}
		seen[p] = true
	}
	return Port{}
}

// refuseTaken returns the reason why a node has other users of these ports, or an empty code. The port `twice` is the one
// that they have twice, zero if none.
func refuseTaken(ports []Port, twice Port, c Candidate) writ.NodeVerdict {
	for _, p := range ports {
		if user := c.Ports[p]; p.Number != 0 && user != "" {
			return unsuitable(writ.VerdictPortTaken, fmt.Sprintf("has port %s published by %s", p, user))
		}
	}
	if twice != (Port{}) {
		return unsuitable(writ.VerdictPortTaken, fmt.Sprintf("cannot publish port %s twice", twice))
	}
	return writ.NodeVerdict{}
}

// PortError returns the error of a call whose resource is on a node and cannot have these ports there, or nil.
func PortError(ports []Port, c Candidate) *writ.Error {
	for _, against := range []writ.NodeVerdict{refuseClosed(ports, c), refuseTaken(ports, repeated(ports), c)} {
		if against.Code != "" {
			against.Name = c.Name
			return portError([]writ.NodeVerdict{against}, against.Name+" "+against.Reason)
		}
	}
	return nil
}

// portError returns the error of calls that only lack ports, or nil if a node is unsuitable for another reason.
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
