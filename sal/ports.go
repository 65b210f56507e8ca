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
	// Publish makes ports of the node lead to the namespace or taps of an owner, which must exist. It withdraws all other
	// published ports of the owner. If one of the ports is unavailable, Publish makes no change and returns PORT_CLOSED
	// or PORT_TAKEN. The readiness of the owner stays unchanged; it is NotReady before the first call of SetReadiness.
	Publish(ctx context.Context, owner Owner, ports []catalog.Publish) ([]catalog.Published, error)
	// Move publishes ports for the owner `to`, even if the owner `from` publishes them now, and withdraws all other ports
	// of `from`. At any time, a new connection reaches one of the two owners. Open connections to `from` continue until
	// `from` is released. The readiness of `to` becomes Ready. If `from` has been released, Move does the same as
	// Publish. Move returns the same errors as Publish.
	Move(ctx context.Context, from, to Owner, ports []catalog.Publish) ([]catalog.Published, error)
	// SetReadiness sets the readiness of an owner for its shared ports. It has no effect without shared ports. Open
	// connections are unaffected.
	SetReadiness(ctx context.Context, owner Owner, readiness Readiness) error
	// Connections returns the number of open TCP connections that reached an owner through its published ports. It
	// includes connections through ports that have been moved to another owner since then.
	Connections(ctx context.Context, owner Owner) (int, error)
	// Keep repairs the published ports of an owner and returns the ports and the drift. An owner without published ports
	// is not an error.
	Keep(ctx context.Context, owner Owner) ([]catalog.Published, []Drift, error)
}

// Readiness determines which new connections to its shared ports an owner gets.
type Readiness string

// Values of Readiness.
const (
	NotReady Readiness = ""         // no new connections
	Doubtful Readiness = "doubtful" // an equal share, while no owner of the same port is Ready
	Ready    Readiness = "ready"    // an equal share, together with all other owners of the port that are Ready
)

// Claim is a port of the node that a resource reserves.
type Claim struct {
	Protocol string `json:"protocol"`
	Port     int64  `json:"port"`
	To       int64  `json:"to"`
	Chosen   bool   `json:"chosen,omitempty"` // the resource asked for port 0
	Share    string `json:"share,omitempty"`  // as in catalog.Publish
}

// At reports whether two claims are for the same port and protocol.
func (c Claim) At(other Claim) bool { return c.Protocol == other.Protocol && c.Port == other.Port }

// SharesWith reports whether two claims of one project share a port.
func (c Claim) SharesWith(other Claim) bool {
	return c.At(other) && c.Share != "" && c.Share == other.Share
}

// User returns a sentence about the owner of a claim, in the form that Claims.Taken requires. It names the owner only
// if the project `asks` owns it.
func (c Claim) User(owner writ.ResourceID, asks writ.ProjectID) string {
	switch {
	case owner.Project != asks:
		return "a resource of another project publishes it"
	case c.Share != "":
		return fmt.Sprintf("%s shares it under the name %q", owner, c.Share)
	}
	return owner.String() + " publishes it"
}

// Shared returns the claims for shared ports.
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

// Choose returns the claims, sorted by port, for a resource that requests the ports `wanted` and now has the claims
// `had`. For port 0, it keeps the port that it chose earlier, if that port is still open and free. It returns
// PORT_CLOSED or PORT_TAKEN if a port is unavailable, and ARGUMENTS_INVALID if two entries of wanted conflict.
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

// isChosen reports whether Choose selected a port earlier for the same request for port 0.
func isChosen(had []Claim, w catalog.Publish, port int64) bool {
	return slices.Contains(had, Claim{Protocol: w.Protocol, Port: port, To: w.To, Chosen: true})
}

// require returns PORT_CLOSED or PORT_TAKEN if the claimed port is unavailable.
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

// Published returns the claims in the form that operations return: one entry for each address of the node that opens
// the port.
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
