package dashboard

import (
	. "writ/coord/dashboard/markup"
)

// maxBoots limits the booting machines of a datacenter on a page. The newest of each address come first.
const maxBoots = 200

// bootCount counts the booting machines for the first page.
type bootCount struct{ Starting, Failed int }

// Key is constant: the part has one piece.
func (bootCount) Key() string { return "boot" }

// bootCounts counts the booting machines. Without a boot server it returns nothing.
func bootCounts(now *moment) []bootCount {
	var c bootCount
	servers := 0
	for _, dc := range now.boots {
		servers += len(dc.Servers)
		c.Failed += dc.Failed
		for step, n := range dc.Steps {
			if step != stepJoined && step != "off" && step != "other" {
				c.Starting += n
			}
		}
	}
	if servers == 0 {
		return nil
	}
	return []bootCount{c}
}

// stepJoined is the step of a machine that serves as a node.
const stepJoined = "joined"

func (c bootCount) html() Node {
	failed := ""
	if c.Failed > 0 {
		failed = ", " + digits(c.Failed) + " cannot go on"
	}
	return P(Class("note"), key(c), A(Href("/boot"), Text(plural(c.Starting, "machine starts", "machines start")+failed)))
}
