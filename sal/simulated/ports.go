package simulated

import (
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// claimPorts sets the ports of the node that a new or changed resource publishes. The caller must drop the choice.
func claimPorts(d *Driver, request sal.Request, s *state) (err error) {
	if args, ok := request.Args.(*catalog.ContainerCreate); ok {
		s.Claims, err = choosing.claim(node(d.config.Dir), d.claims(), request.Resource, args.Publish, s.Claims)
	}
	return err
}

// claims returns the ports that the node opens.
func (d *Driver) claims() sal.Claims { return sal.Claims{Open: d.config.Open} }

// claim chooses the ports of a resource that asks for `wanted` and has `had`.
func (c *choices) claim(
	n node, claims sal.Claims, r writ.ResourceID, wanted []catalog.Publish, had []sal.Claim,
) ([]sal.Claim, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	others, _, err := n.records("container").List()
	if err != nil {
		return nil, err
	}
	claims.Taken = func(protocol string, port int64) string {
		is := func(c sal.Claim) bool { return c.Protocol == protocol && c.Port == port }
		for _, o := range others {
			switch {
			case o.Resource == r || !slices.ContainsFunc(o.Own.State.Claims, is):
			case o.Resource.Project != r.Project:
				return "a resource of another project publishes it"
			default:
				return o.Resource.String() + " publishes it"
			}
		}
		for owner, open := range c.ports {
			other := filepath.Dir(owner) == filepath.Clean(string(n)) && owner != n.choice(r)
			if other && slices.ContainsFunc(open, is) {
				return "another resource is about to publish it"
			}
		}
		return ""
	}
	chosen, err := claims.Choose(wanted, had)
	if err == nil {
		c.ports[n.choice(r)] = chosen
	}
	return chosen, err
}
