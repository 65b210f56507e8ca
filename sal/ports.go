package sal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/internal/opening"
	"writ/sal/catalog"
)

// Publishing is an optional interface of Networks that can publish ports.
type Publishing interface{ Publisher() Publisher }

// Publisher publishes ports of owners on the node.
type Publisher interface {
	// Publish makes ports of the node lead to the namespace or taps of an owner, and withdraws its earlier ports. The
	// owner must have a namespace or taps. Publish returns PORT_CLOSED or PORT_TAKEN, without a change, if one of the
	// ports is unavailable.
	Publish(ctx context.Context, owner Owner, ports []catalog.Publish) ([]catalog.Published, error)
	// Move publishes ports for an owner. It takes them from an earlier owner, and withdraws the other ports of the earlier
	// owner. A new connection always leads to one of the two. Open connections to the earlier owner continue until it is
	// released. If the earlier owner has been released, Move is Publish. The error is as for Publish.
	Move(ctx context.Context, from, to Owner, ports []catalog.Publish) ([]catalog.Published, error)
	// Connections returns the number of open TCP connections that came through published ports of an owner, also after
	// they moved to another one.
	Connections(ctx context.Context, owner Owner) (int, error)
	// Keep repairs the published ports of an owner and returns the ports and the drift. An owner without any is
	// not an error.
	Keep(ctx context.Context, owner Owner) ([]catalog.Published, []Drift, error)
}

// Claim is a port of the node that a resource has.
type Claim struct {
	Protocol string `json:"protocol"`
	Port     int64  `json:"port"`
	To       int64  `json:"to"`
	Chosen   bool   `json:"chosen,omitempty"` // the resource asked for port 0
}

// Claims decides which ports of a node a resource may publish.
type Claims struct {
	Open opening.List
	// Taken describes the other user of a port in a sentence: "container web publishes it". It returns "" for a free
	// port, and no names of other projects.
	Taken func(protocol string, port int64) string
}

// Choose returns the ports for a resource that asks for `wanted` and has `had`. A port 0 stays the port that was chosen
// before.
func (c Claims) Choose(wanted []catalog.Publish, had []Claim) ([]Claim, error) {
	var all []Claim
	has := func(protocol string, port int64) bool {
		return slices.ContainsFunc(all, func(o Claim) bool { return o.Protocol == protocol && o.Port == port })
	}
	for _, w := range wanted {
		if w.Port == 0 {
			continue
		}
		if has(w.Protocol, w.Port) {
			return nil, writ.Errorf(writ.CodeArgumentsInvalid, "publish names port %d/%s twice", w.Port, w.Protocol)
		}
		if err := c.require(w.Protocol, w.Port); err != nil {
			return nil, err
		}
		all = append(all, Claim{Protocol: w.Protocol, Port: w.Port, To: w.To})
	}
	for _, w := range wanted {
		if w.Port != 0 {
			continue
		}
		free := func(port int64) bool { return !has(w.Protocol, port) && c.Taken(w.Protocol, port) == "" }
		port, ok := c.Open.Find(func(port int64) bool { return isChosen(had, w, port) && free(port) })
		if !ok {
			port, ok = c.Open.Find(free)
		}
		if !ok {
			return nil, c.noneFree(w.Protocol)
		}
		all = append(all, Claim{w.Protocol, port, w.To, true})
	}
	slices.SortFunc(all, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return all, nil
}

// isChosen reports whether a port was chosen for a wish before.
func isChosen(had []Claim, w catalog.Publish, port int64) bool {
	return slices.Contains(had, Claim{w.Protocol, port, w.To, true})
}

// require returns an error if the resource cannot have a port.
func (c Claims) require(protocol string, port int64) error {
	if len(c.Open.At(port)) == 0 {
		return writ.Errorf(writ.CodePortClosed, "port %d is not open on this node", port).WithHint("%s", OpenHint(c.Open.Texts()))
	}
	if taken := c.Taken(protocol, port); taken != "" {
		return writ.Errorf(writ.CodePortTaken, "port %d/%s of this node is taken: %s", port, protocol, taken).
			WithHint("publish another port, or port 0 for any free one")
	}
	return nil
}

func (c Claims) noneFree(protocol string) error {
	if len(c.Open) == 0 {
		return writ.Errorf(writ.CodePortClosed, "no port is open on this node").WithHint("%s", OpenHint(nil))
	}
	return writ.Errorf(writ.CodePortTaken, "all open %s ports of this node are taken", protocol).
		WithHint("delete unused resources; %s", OpenHint(c.Open.Texts()))
}

// OpenHint returns the hint that names the open ports of a node.
func OpenHint(open []string) string {
	if len(open) == 0 {
		return "its operator opens ports with `writ runner --publish ADDRESS:PORTS`"
	}
	return fmt.Sprintf("it opens %s; its operator opens others with `writ runner --publish`", strings.Join(open, " and "))
}

// Published returns the ports as operations report them: at each address that opens them.
func (c Claims) Published(claims []Claim) []catalog.Published {
	var all []catalog.Published
	for _, claim := range claims {
		for _, address := range c.Open.At(claim.Port) {
			all = append(all, catalog.Published{
				Address: address.String(), Port: claim.Port, To: claim.To, Protocol: claim.Protocol,
			})
		}
	}
	return all
}
