package runs

import (
	"time"

	"writ/coord/api"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	. "writ/coord/dashboard/widget"
	"writ/identity/expiring"
	"writ/internal/hidden"
)

// attention is the line of the first page that counts everything that needs a person.
type attention []concern

// concern counts items of one kind that need a person.
type concern struct {
	N         int
	One, Many string
	Address   string // address of a page that lists the items, may be ""
	Detail    string // may be ""
}

// Key is constant, because its part of the page has no other element.
func (attention) Key() string { return "attention" }

// attentionOf returns the concerns that a reader may see. troubled is the number of readable resources with a problem.
// ends lists the expiring items, and ledgerDown reports whether the ledger is unusable. Both are shown to readers of
// all projects only.
func attentionOf(
	now *snapshot.Snapshot, reader page.Reader, troubled int, ends []expiring.Item, ledgerDown bool,
) (all attention) {
	concerns := []concern{
		{away(now.Datacenters), "datacenter is away", "datacenters are away", "/datacenters", ""},
		{blocked(now.Datacenters), "faulty datacenter", "faulty datacenters", "/datacenters", ""},
		{heldFor(reader, now.Holds), "hold", "holds", "#holds", ""},
		{sumOf(now.Stuck.Sum(reader.Reads)), "stuck run", "stuck runs", "/stuck", ""},
		{troubled, "resource with a problem", "resources with a problem", "/resources?troubled=1", ""},
	}
	if reader.All {
		n := now.Nodes
		concerns = append([]concern{
			concernOfLedger(ledgerDown),
			{n.Lost, "lost node", "lost nodes", "/nodes", ""},
			{n.Silent, "silent node", "silent nodes", "/nodes", ""},
			{n.Faulty, "faulty node", "faulty nodes", "/nodes", ""},
			{n.Full, "full disk", "full disks", "/nodes", ""},
			{n.AlmostFull, "disk almost full", "disks almost full", "/nodes", ""},
		}, append(concerns, concernOfEnds(ends, now.At))...)
	}
	for _, c := range concerns {
		if c.N > 0 {
			all = append(all, c)
		}
	}
	return all
}

// concernOfLedger reports a full or damaged ledger of this coordinator.
func concernOfLedger(down bool) concern {
	c := concern{
		One:    "ledger cannot be used",
		Detail: ": this coordinator refuses new work, and events wait in the datacenters; see `writ doctor` and its log",
	}
	if down {
		c.N = 1
	}
	return c
}

// away counts the enabled datacenters that are not connected.
func away(datacenters []api.Datacenter) (n int) {
	for _, dc := range datacenters {
		if dc.Enabled && !dc.IsConnected() {
			n++
		}
	}
	return n
}

// blocked counts the connected datacenters with a fault.
func blocked(datacenters []api.Datacenter) (n int) {
	for _, dc := range datacenters {
		if dc.IsConnected() && dc.Fault != "" {
			n++
		}
	}
	return n
}

// heldFor counts the holds that a reader may see.
func heldFor(reader page.Reader, of []api.DatacenterHolds) (n int) {
	for _, dc := range of {
		for _, h := range dc.Holds {
			if h.Held && (h.Project == "" || reader.Reads(h.Project)) {
				n++
			}
		}
	}
	return n
}

// expiredFor is the time in which an expired item still needs attention. Items that expired earlier, such as a role
// that ended long ago, are not shown.
const expiredFor = 30 * 24 * time.Hour

// concernOfEnds counts the items to renew now, and names the first three with their commands.
func concernOfEnds(ends []expiring.Item, now time.Time) concern {
	c := concern{One: "item expires soon or has expired", Many: "items expire soon or have expired"}
	for _, e := range ends {
		if e.Stage(now) == 0 || now.Sub(e.At) >= expiredFor {
			continue
		}
		if c.N++; c.N > 3 {
			continue
		}
		text := e.String()
		if e.Ended(now) {
			text = e.What + " has expired"
		}
		c.Detail += separator(c.N) + text + " (" + e.Renew + ")"
	}
	return c
}

// separator returns the text before the n-th detail.
func separator(number int) string {
	if number == 1 {
		return ": "
	}
	return "; "
}

func (a attention) HTML() Node {
	return P(Class("notice attention"), page.Key(a), B(Text("Needs attention: ")), Each(a, concern.HTML))
}

func (c concern) HTML() Node {
	text := Text(Plural(c.N, c.One, c.Many))
	if c.Address == "" {
		return Span(text, Text(hidden.Escape(c.Detail)))
	}
	return A(Href(c.Address), text)
}

// addAttention adds the line to a page. Without concerns, the part is empty.
func addAttention(p *page.Page, a attention) {
	if len(a) == 0 {
		page.Add[attention](p, page.Part{ID: "attention"})
		return
	}
	page.Add(p, page.Part{ID: "attention"}, a)
}
