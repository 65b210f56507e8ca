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
	// ports is unavailable. It keeps the readiness of the owner, which is NotReady at first.
	Publish(ctx context.Context, owner Owner, ports []catalog.Publish) ([]catalog.Published, error)
	// Move publishes ports for an owner. It takes them from an earlier owner, and withdraws the other ports of the earlier
	// owner. A new connection always leads to one of the two. Open connections to the earlier owner continue until it is
	// released. The new owner is Ready. If the earlier owner has been released, Move is Publish. The error is as for
	// Publish.
	Move(ctx context.Context, from, to Owner, ports []catalog.Publish) ([]catalog.Published, error)
	// SetReadiness sets the readiness of an owner for its shared ports. It has no effect without shared ports. Open
	// connections are unaffected.
	SetReadiness(ctx context.Context, owner Owner, readiness Readiness) error
	// Connections returns the number of open TCP connections that came through published ports of an owner, also after
	// they moved to another one.
	Connections(ctx context.Context, owner Owner) (int, error)
	// Keep repairs the published ports of an owner and returns the ports and the drift. An owner without any is
	// not an error.
	Keep(ctx context.Context, owner Owner) ([]catalog.Published, []Drift, error)
}

// Readiness determines which new connections to its shared ports an owner gets.
type Readiness string

// Values of Readiness.
const (
	NotReady Readiness = ""         // none
	Doubtful Readiness = "doubtful" // an equal part, while no owner with the same port is Ready
	Ready    Readiness = "ready"    // an equal part, together with the other owners that are Ready
)

// Claim is a port of the node that a resource has.
type Claim struct {
	Protocol string `json:"protocol"`
	Port     int64  `json:"port"`
	To       int64  `json:"to"`
	Chosen   bool   `json:"chosen,omitempty"` // the resource asked for port 0
	Share    string `json:"share,omitempty"`  // as in catalog.Publish
}

// At reports whether two claims are to the same port.
func (c Claim) At(other Claim) bool { return c.Protocol == other.Protocol && c.Port == other.Port }

// SharesWith reports whether two claims of one project share a port.
func (c Claim) SharesWith(other Claim) bool {
	return c.At(other) && c.Share != "" && c.Share == other.Share
}

// User describes the owner of a claim to a project, in a sentence as for Claims.Taken.
func (c Claim) User(owner writ.ResourceID, asks writ.ProjectID) string {
	switch {
	case owner.Project != asks:
		return "a resource of another project publishes it"
	case c.Share != "":
		return fmt.Sprintf("%s shares it under the name %q", owner, c.Share)
	}
	return owner.String() + " publishes it"
}

// Shared returns the claims to shared ports.
func Shared(claims []Claim) []Claim {
	return slices.DeleteFunc(slices.Clone(claims), func(c Claim) bool { return c.Share == "" })
}

// Claims decides which ports of a node a resource may publish.
type Claims struct {
	Open opening.List
	// Taken describes the user of a port that a claim conflicts with, in a sentence: "container web publishes it". It
	// returns "" for a free port, and for a port that the claim can share. It returns no names of other projects.
	Taken func(Claim) string
}

// Choose returns the ports for a resource that asks for `wanted` and has `had`. A port 0 stays the port that was chosen
// before.
func (c Claims) Choose(wanted []catalog.Publish, had []Claim) ([]Claim, error) {
	var all []Claim
	has := func(c Claim) bool { return slices.ContainsFunc(all, c.At) }
	for _, w := range wanted {
		if w.Port == 0 {
			continue
		}
		claim := Claim{Protocol: w.Protocol, Port: w.Port, To: w.To, Share: w.Share}
		if has(claim) {
			return nil, writ.Errorf(writ.CodeArgumentsInvalid, "publish names port %d/%s twice", w.Port, w.Protocol)
		}
		if err := c.require(claim); err != nil {
			return nil, err
		}
		all = append(all, claim)
	}
	for _, w := range wanted {
		if w.Port != 0 {
			continue
		}
		if w.Share != "" {
			return nil, writ.Errorf(writ.CodeArgumentsInvalid, "publish shares port 0 as %q", w.Share).
				WithHint("share a port by its number")
		}
		claim := Claim{Protocol: w.Protocol, To: w.To, Chosen: true}
		free := func(port int64) bool {
			claim.Port = port
			return !has(claim) && c.Taken(claim) == ""
		}
		port, ok := c.Open.Find(func(port int64) bool { return isChosen(had, w, port) && free(port) })
		if !ok {
			port, ok = c.Open.Find(free)
		}
		if !ok {
			return nil, c.noneFree(w.Protocol)
		}
		claim.Port = port
		all = append(all, claim)
	}
	slices.SortFunc(all, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return all, nil
}

// isChosen reports whether a port was chosen for a wish before.
func isChosen(had []Claim, w catalog.Publish, port int64) bool {
	return slices.Contains(had, Claim{Protocol: w.Protocol, Port: port, To: w.To, Chosen: true})
}

// require returns an error if the resource cannot have a port.
func (c Claims) require(claim Claim) error {
	if len(c.Open.At(claim.Port)) == 0 {
		return writ.Errorf(writ.CodePortClosed, "port %d is not open on this node", claim.Port).
			WithHint("%s", OpenHint(c.Open.Texts()))
	}
	if taken := c.Taken(claim); taken != "" {
		return writ.Errorf(writ.CodePortTaken, "port %d/%s of this node is taken: %s", claim.Port, claim.Protocol, taken).
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
	return fmt.Sprintf("the node opens %s; its operator opens more ports with `writ runner --publish`", strings.Join(open, " and "))
}

// Published returns the ports as operations report them: at each address that opens them.
func (c Claims) Published(claims []Claim) []catalog.Published {
	var all []catalog.Published
	for _, claim := range claims {
		for _, address := range c.Open.At(claim.Port) {
			all = append(all, catalog.Published{
				Address: address.String(), Port: claim.Port, To: claim.To, Protocol: claim.Protocol, Share: claim.Share,
			})
		}
	}
	return all
}
