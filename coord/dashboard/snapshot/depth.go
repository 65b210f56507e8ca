package snapshot

import (
	"net/url"

	"writ"
	"writ/coord/api"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

// Depth is the number of open calls in several queues, by state.
type Depth struct {
	Running, Queued, Planned int
	Unheard                  int // calls that ran on nodes that are now unheard
	Unknown                  int // datacenters that do not answer
}

// Key is constant, because its part of the page has no other element.
func (Depth) Key() string { return "depth" }

// DepthOf sums the queues of all nodes.
func DepthOf(now *Snapshot) (sum Depth) {
	for _, dc := range now.Queues {
		if dc.Error != nil {
			sum.Unknown++
		}
		for _, q := range dc.Queues {
			sum.Add(now, dc.Datacenter, q)
		}
	}
	return sum
}

// Add adds the calls of a queue. It adds the running calls on an unheard node to Unheard.
func (d *Depth) Add(now *Snapshot, datacenter writ.DatacenterID, q writ.QueueDepth) {
	d.Queued += q.Queued
	d.Planned += q.Planned
	if _, is := now.UnheardNode(datacenter, q.Node); is {
		d.Unheard += q.Running
		return
	}
	d.Running += q.Running
}

// Queue is a row of the table of depths: a node, an unreachable datacenter, or a datacenter with its omitted nodes.
type Queue struct {
	writ.QueueDepth
	Datacenter writ.DatacenterID
	Name       string   // name of the datacenter
	Unheard    *Unheard // the node if it is unheard, otherwise nil
	Error      *writ.Error
	Idle       int // omitted idle nodes
	Busy       int // omitted nodes with calls, but fewer than the listed nodes
}

// Key identifies the row. Calls that were not placed yet have no node.
func (q Queue) Key() string {
	if q.Error != nil || q.Idle+q.Busy > 0 {
		return string(q.Datacenter)
	}
	return string(q.Datacenter) + "/" + string(q.Node)
}

// Open counts the calls of the node.
func (q Queue) Open() int { return q.Running + q.Queued + q.Planned }

// QueueOf returns the row of a queue, with the reason if its node is unheard.
func QueueOf(now *Snapshot, dc api.DatacenterQueues, q writ.QueueDepth) Queue {
	line := Queue{QueueDepth: q, Datacenter: dc.Datacenter, Name: dc.Name}
	if u, is := now.UnheardNode(dc.Datacenter, q.Node); is {
		line.Unheard = &u
	}
	return line
}

// HTML returns the number of open calls by state.
func (d Depth) HTML() Node {
	line := func(state string, n int) Node {
		return Div(Class("b-"+state), Dt(Text(state)), Dd(Number(n)))
	}
	return Div(Class("depth"), page.Key(d), Data("running", Digits(d.Running)), Data("queued", Digits(d.Queued)),
		Data("planned", Digits(d.Planned)),
		H2(Text("Open calls")),
		Dl(line("running", d.Running), line("queued", d.Queued), line("planned", d.Planned)),
		If(d.Unheard > 0,
			P(Class("note"), Text("without "+Plural(d.Unheard, "call", "calls")+" on silent or lost nodes"))),
		If(d.Unknown > 0,
			P(Class("note"), Text("without "+Plural(d.Unknown, "datacenter that does", "datacenters that do")+" not answer"))))
}

// HTML returns the row of the queue.
func (q Queue) HTML() Node {
	return Tr(page.Key(q), If(q.Open() == 0, Class("idle")), Th(Scope("row"), q.title()), q.cells())
}

func (q Queue) title() Node {
	if q.Error != nil || q.Idle+q.Busy > 0 {
		return Text(q.Name)
	}
	return Group{Text(q.NodeName), Sub(q.Name)}
}

func (q Queue) cells() Node {
	switch {
	case q.Error != nil:
		return Td(ColSpan("3"), Class("n"), Title(q.Error.Message), StateTag("away"), Text(" "),
			Span(Class("hidden"), Text(q.Error.Code)))
	case q.Idle+q.Busy > 0:
		return Td(ColSpan("3"), Class("n"),
			If(q.Busy > 0,
				A(Href(queuesOf(q.Datacenter)), Text(Plural(q.Busy, "more node has", "more nodes have")+" fewer calls"))),
			If(q.Idle > 0 && q.Busy > 0, Text(", ")),
			If(q.Idle > 0, Text(Plural(q.Idle, "more node has", "more nodes have")+" nothing to do")))
	}
	return Group{Cell("n", "", q.RunningCell()), Cell("n", "", Number(q.Queued)), Cell("n", "", Number(q.Planned))}
}

// RunningCell shows the number of running calls. It is unknown while the node is unheard.
func (q Queue) RunningCell() Node {
	if q.Unheard != nil && q.Running > 0 {
		return Span(Class("none"), Title(Digits(q.Running)+" ran at the last contact with the node"), Text("unknown"))
	}
	return Number(q.Running)
}

// RunningText formats the number of running calls. Calls on unheard nodes count as unknown.
func (d Depth) RunningText() string {
	text := Digits(d.Running) + " running"
	if d.Unheard > 0 {
		text += ", " + Digits(d.Unheard) + " unknown"
	}
	return text
}

func queuesOf(datacenter writ.DatacenterID) string {
	return "/queues?datacenter=" + url.QueryEscape(string(datacenter))
}
