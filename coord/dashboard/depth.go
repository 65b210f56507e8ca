package dashboard

import (
	"net/url"
	"writ"
	"writ/coord/api"
	. "writ/coord/dashboard/markup"
)

// depth counts the open calls of all queues.
type depth struct {
	Running, Queued, Planned int
	Unheard                  int // calls that ran on nodes that are now unheard
	Unknown                  int // datacenters that do not answer
}

// Key is constant: the part has one piece.
func (depth) Key() string { return "depth" }

func depthOf(now *moment) (sum depth) {
	for _, dc := range now.queues {
		if dc.Error != nil {
			sum.Unknown++
		}
		for _, q := range dc.Queues {
			sum.add(now, dc.Datacenter, q)
			sum.Queued += q.Queued
			sum.Planned += q.Planned
		}
	}
	return sum
}

// add counts the running calls of a queue.
func (d *depth) add(now *moment, datacenter writ.DatacenterID, q writ.QueueDepth) {
	if _, is := now.unheardNode(datacenter, q.Node); is {
		d.Unheard += q.Running
		return
	}
	d.Running += q.Running
}

// queue is a row of the table of depths: a node, an unreachable datacenter, or a datacenter with its omitted nodes.
type queue struct {
	writ.QueueDepth
	Datacenter writ.DatacenterID
	Name       string   // of the datacenter
	Unheard    *unheard // the node if it is unheard, otherwise nil
	Error      *writ.Error
	Idle       int // omitted idle nodes
	Busy       int // omitted nodes with fewer calls than others
}

// Key identifies the row. Calls that were not placed yet have no node.
func (q queue) Key() string {
	if q.Error != nil || q.Idle+q.Busy > 0 {
		return string(q.Datacenter)
	}
	return string(q.Datacenter) + "/" + string(q.Node)
}

// Open counts the calls of the node.
func (q queue) Open() int { return q.Running + q.Queued + q.Planned }

// queueOf returns the row of a queue, with the reason if its node is unheard.
func queueOf(now *moment, dc api.DatacenterQueues, q writ.QueueDepth) queue {
	line := queue{QueueDepth: q, Datacenter: dc.Datacenter, Name: dc.Name}
	if u, is := now.unheardNode(dc.Datacenter, q.Node); is {
		line.Unheard = &u
	}
	return line
}

func (d depth) html() Node {
	line := func(state string, n int) Node {
		return Div(Class("b-"+state), Dt(Text(state)), Dd(number(n)))
	}
	return Div(Class("depth"), key(d), Data("running", digits(d.Running)), Data("queued", digits(d.Queued)),
		Data("planned", digits(d.Planned)),
		H2(Text("Open calls")),
		Dl(line("running", d.Running), line("queued", d.Queued), line("planned", d.Planned)),
		If(d.Unheard > 0,
			P(Class("note"), Text("without "+plural(d.Unheard, "call", "calls")+" on nodes that are not heard"))),
		If(d.Unknown > 0,
			P(Class("note"), Text("without "+plural(d.Unknown, "datacenter that does", "datacenters that do")+" not answer"))))
}

func (q queue) html() Node {
	return Tr(key(q), If(q.Open() == 0, Class("idle")), Th(Scope("row"), q.title()), q.cells())
}

func (q queue) title() Node {
	if q.Error != nil || q.Idle+q.Busy > 0 {
		return Text(q.Name)
	}
	return Group{Text(q.NodeName), sub(q.Name)}
}

func (q queue) cells() Node {
	switch {
	case q.Error != nil:
		return Td(ColSpan("3"), Class("n"), Title(q.Error.Message), stateTag("away"), Text(" "),
			Span(Class("hidden"), Text(q.Error.Code)))
	case q.Idle+q.Busy > 0:
		return Td(ColSpan("3"), Class("n"),
			If(q.Busy > 0,
				A(Href(queuesOf(q.Datacenter)), Text(plural(q.Busy, "more node has", "more nodes have")+" fewer calls"))),
			If(q.Idle > 0 && q.Busy > 0, Text(", ")),
			If(q.Idle > 0, Text(plural(q.Idle, "more node has", "more nodes have")+" nothing to do")))
	}
	return Group{cell("n", "", q.running()), cell("n", "", number(q.Queued)), cell("n", "", number(q.Planned))}
}

// running shows the number of running calls. It is unknown while the node is unheard.
func (q queue) running() Node {
	if q.Unheard != nil && q.Running > 0 {
		return Span(Class("none"), Title(digits(q.Running)+" ran when the node was heard last"), Text("unknown"))
	}
	return number(q.Running)
}

// running formats the running calls, and those of unheard nodes as unknown.
func (d depth) running() string {
	text := digits(d.Running) + " running"
	if d.Unheard > 0 {
		text += ", " + digits(d.Unheard) + " unknown"
	}
	return text
}

func queuesOf(datacenter writ.DatacenterID) string {
	return "/queues?datacenter=" + url.QueryEscape(string(datacenter))
}
