package snapshot

import (
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

// maxBoots limits the booting machines of a datacenter on a page. The datacenter selects the newest machines of each
// network address in turn, so that one address cannot fill the page.
const maxBoots = 200

// BootCount counts the booting machines for the first page.
type BootCount struct{ Starting, Failed int }

// Key is constant, because its part of the page has no other element.
func (BootCount) Key() string { return "boot" }

// BootCounts counts the booting machines. It returns an empty list if there is no boot server.
func BootCounts(now *Snapshot) []BootCount {
	var c BootCount
	servers := 0
	for _, dc := range now.Boots {
		servers += len(dc.Servers)
		c.Failed += dc.Failed
		for step, n := range dc.Steps {
			if step != StepJoined && step != "off" && step != "other" {
				c.Starting += n
			}
		}
	}
	if servers == 0 {
		return nil
	}
	return []BootCount{c}
}

// StepJoined is the step of a machine that serves as a node.
const StepJoined = "joined"

// HTML returns the counts with a link to the list of machines.
func (c BootCount) HTML() Node {
	failed := ""
	if c.Failed > 0 {
		failed = ", " + Digits(c.Failed) + " cannot continue"
	}
	return P(Class("note"), page.Key(c),
		A(Href("/boot"), Text(Plural(c.Starting, "machine starts", "machines start")+failed)))
}
