package snapshot

import (
	"cmp"
	"time"

	"writ"
	"writ/coord/api"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
	"writ/identity"
	"writ/internal/hidden"
)

// maxHolds limits the holds on a page.
const maxHolds = 20

// held is a hold, or an exemption from a hold.
type held struct {
	api.Hold
	DatacenterName string
	Datacenter     writ.DatacenterID
	scope          identity.Scope
	Command        string // command that releases the hold; "" if the reader may not release it or it is released already
}

// Key identifies the hold.
func (h held) Key() string {
	return string(h.Datacenter) + "/" + string(h.Project) + "/" + h.Deployment + "/" + h.Operation
}

// What describes the scope of the hold, as text.
func (h held) What() string { return hidden.Escape(h.scope.Text(h.ProjectName)) }

func (h held) last() (d writ.Decision) {
	if n := len(h.Decided); n > 0 {
		d = h.Decided[n-1]
	}
	return d
}

// By, Reason and Time describe the last decision.

func (h held) By() string {
	return Cut(cmp.Or(h.last().Signer, "the supervisor itself"), MaxValue)
}
func (h held) Reason() string  { return Cut(h.last().Reason, MaxValue) }
func (h held) Time() time.Time { return h.last().Time }

// AddHolds adds the holds that the reader may see.
func AddHolds(p *page.Page, reader page.Reader, now *Snapshot) {
	var all []held
	for _, dc := range now.Holds {
		for _, h := range dc.Holds {
			if !h.Held && !h.Exempt || h.Project != "" && !reader.Reads(h.Project) || len(all) == maxHolds {
				continue
			}
			row := held{Hold: h, DatacenterName: hidden.Escape(dc.Name), Datacenter: dc.Datacenter, scope: scopeOf(h)}
			if h.Held && mayRelease(reader, h) {
				row.Command = row.scope.Release(dc.Name, h.ProjectName)
			}
			all = append(all, row)
		}
	}
	page.Add(p, page.Part{ID: "holds"}, all...)
}

func scopeOf(h api.Hold) identity.Scope {
	return identity.Scope{Project: h.Project, Deployment: h.Deployment, Operation: h.Operation}
}

// mayRelease reports whether a page offers the reader the command that releases a hold.
func mayRelease(reader page.Reader, h api.Hold) bool {
	if h.ByOperator || h.Project == "" {
		return reader.Allows(identity.ActionScheduleNodes, "")
	}
	return reader.Allows(identity.ActionControlRuns, h.Project)
}

// HoldsSection shows the holds.
func HoldsSection(p *page.Page) Node {
	return Section(p.Part("holds"), Class("holds"), Aria("label", "On hold"))
}

func (h held) HTML() Node {
	word, reason := "released", ""
	if h.Held {
		word = "on hold"
	}
	if h.Reason() != "" {
		reason = ": " + h.Reason()
	}
	return P(Class("hold"), page.Key(h),
		Span(Span(Class("tag"), Text(word)), Text(" "), B(Text(h.What())), Text(" in "+h.DatacenterName+", "),
			SinceTime(h.Time()), Text(" by "+h.By()+reason)),
		With(h.Command, func(command string) Node { return Group{Text(" "), Copyable(command)} }))
}
