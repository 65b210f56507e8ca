package simulated

import (
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// claimPorts sets in s the ports of the node that a new or changed container publishes. The caller must call
// choices.drop.
func claimPorts(d *Driver, request sal.Request, s *state) (err error) {
	if args, ok := request.Args.(*catalog.ContainerCreate); ok {
		s.Claims, err = choosing.claim(node(d.config.Dir), claimsOf(d), request.Resource, args.Publish, s.Claims)
	}
	return err
}

// claimsOf returns the ports of the node that containers may publish.
func claimsOf(d *Driver) sal.Claims { return sal.Claims{Open: d.config.Open} }

// claim chooses the ports of a resource that requests `wanted`. Its previous ports are `had`.
func (c *choices) claim(
	n node, from sal.Claims, r writ.ResourceID, wanted []catalog.Publish, had []sal.Claim,
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
	from.Taken = func(claim sal.Claim) string {
		conflicts := func(project writ.ProjectID, with []sal.Claim) int {
			return slices.IndexFunc(with, func(o sal.Claim) bool {
				return claim.At(o) && !(project == r.Project && claim.SharesWith(o))
			})
		}
		for _, o := range others {
			if i := conflicts(o.Resource.Project, o.Own.State.Claims); i >= 0 && o.Resource != r {
				return o.Own.State.Claims[i].User(o.Resource, r.Project)
			}
		}
		for owner, open := range c.ports {
			other := filepath.Dir(owner) == filepath.Clean(string(n)) && owner != n.choice(r)
			if other && conflicts(open.project, open.all) >= 0 {
				return "another resource is about to publish it"
			}
		}
		return ""
	}
	chosen, err := from.Choose(wanted, had)
	if err == nil {
		c.ports[n.choice(r)] = claims{r.Project, chosen}
	}
	return chosen, err
}
