package dashboard

import (
	"strings"

	"writ"
	. "writ/coord/dashboard/markup"
)

// runPage is the page of a run, which consists of parts only.
type runPage struct{}

func (runPage) html(p *page) Node {
	return Group{
		crumb("/", "Runs"),
		Div(p.part("head"), p.liveUpdates()),
		Div(p.part("output")),
		Section(Class("panel"), Aria("label", "Calls"),
			Div(p.part("scale")),
			Table(Class("list calls"),
				THead(Tr(headCells("##", "State", "Call", "Node and driver", "Attempts"),
					Th(Scope("col"), Class("line"), Text("Time")), headCells("#Took"))),
				TBody(p.part("calls"))),
			P(Class("empty"), Text("The script has made no calls yet.")),
			Div(p.part("pager"))),
		Section(Class("panel"), Aria("label", "What was signed"),
			H2(Text("What was signed")),
			Div(p.part("signed")),
			Div(Class("code-box"), TabIndex("0"), Role("region"), Aria("label", "The script"),
				Table(Class("source"), TBody(p.part("source"))),
				P(Class("empty"),
					Text("The coordinator has no text of this run. It deletes refused submissions, and runs 90 days after their end.")))),
	}
}

func (h runHead) html() Node {
	return Div(key(h), Data("state", string(h.State)), h.failure(),
		Section(Class("panel head"),
			Div(Class("title"), H1(Text(h.Script)), stateTag(h.State), h.duration()),
			With(h.Why, func(why string) Node { return P(Class("waits"), glyph("waiting"), Text(why)) }),
			h.Unheard.html(),
			h.facts(),
			h.commands()))
}

// failure shows why, where and in which call the run failed.
func (h runHead) failure() Node {
	f := h.Failure
	if f == nil {
		return nil
	}
	var call Node
	if f.Seq > 0 {
		call = Text("call " + digits(f.Seq))
		if h.Listed(f.Seq) {
			call = A(Href(callPlace(f.Seq)), call)
		}
		call = subs(Text("in "), call)
	}
	return Section(Class("panel failure"), Aria("label", "Why the run failed"),
		P(Class("code"), glyph("failed"), Text(f.Code), call),
		P(Class("message"), Text(f.Message)),
		With(f.Hint, func(hint string) Node { return P(Class("hint"), Text(hint)) }),
		With(f.Position, func(position string) Node {
			place := Code(Text(position))
			if h.At != "" {
				place = A(Href("#"+h.At), place)
			}
			return P(Class("where"), Text("at "), place, Each(f.Trace, func(caller string) Node {
				return Group{Br(), Text("called at "), Code(Text(caller))}
			}))
		}),
		P(Class("note"), Text(f.Code.Info().Explain())))
}

func (h runHead) duration() Node {
	switch {
	case h.Took() != 0:
		return Span(Class("sub"), Text("took "+duration(h.Took())))
	case h.Open():
		return Span(Class("sub"), sinceTime(h.Accepted))
	}
	return nil
}

func (h runHead) facts() Node {
	return Dl(Class("facts"),
		fact("Run", copyable(string(h.ID))),
		fact("Signer", Text(h.Signer)),
		fact("Project", projectText(h.ProjectName, h.Project)),
		With(h.Deployment, func(name string) Node {
			return fact("Deployment", Text(name),
				When(h.Revision > 0, func() Node { return sub("revision " + digits(h.Revision)) }))
		}),
		fact("Datacenter", Text(h.DatacenterName)),
		fact("Submitted", age(h.Created)),
		h.end(),
		With(decided(h.Decided), func(decision string) Node { return fact("Decided", Text(decision)) }),
		fact("Calls", h.Calls.html()),
		fact("Payload", Code(Title("SHA-256 of the signed text: "+h.Payload.String()), Text(short(h.Payload)+"…"))))
}

// end shows the end of the run, or its deadline.
func (h runHead) end() Node {
	switch {
	case !h.Ended.IsZero():
		return fact("Ended", age(h.Ended))
	case !h.Deadline.IsZero():
		return fact("Deadline", age(h.Deadline))
	}
	return nil
}

// commands lists the commands for the run that the reader may use.
func (h runHead) commands() Node {
	line := func(does, verb string) Node { return fact(does, copyable("writ run "+verb+" "+string(h.ID))) }
	return Dl(Class("commands"),
		If(!h.Helps.IsZero(), fact("What helps", helping(h.Helps))),
		line("Explain", "explain"),
		If(h.Resumable() && h.Controls, line("Resume", "resume")),
		If(h.Open() && h.Controls, line("Cancel", "cancel")),
		If(h.Open(), line("Follow", "watch")),
		fact("Log", copyable("writ run logs "+string(h.ID)),
			If(!h.Accepted.IsZero(), Group{Text(" "), A(Href(runPageOf(h.ID)+"/log"), Text("show it"))})))
}

func (o output) html() Node {
	return Section(Class("panel"), Aria("label", "Output"), key(o),
		H2(Text("Output")),
		o.values(),
		With(o.Link, func(link string) Node {
			return P(Class("links"), A(Href(link), Text("Arguments and results")),
				subs(Text("are stored in the datacenter only: the page requests them")))
		}))
}

func (o output) values() Node {
	switch {
	case o.Wrong != "":
		return P(Class("why"), Text("The coordinator cannot show it: "+o.Wrong))
	case len(o.Values) > 0:
		return Group{
			named(o.Values),
			P(Class("note"), Text("As the datacenter signed it. "), Code(Text("writ run show")), Text(" verifies that.")),
		}
	case o.Ended:
		return P(Class("sub"), Text("The run has no output."))
	}
	return P(Class("sub"), Text("The run has not ended."))
}

func (f signedFacts) html() Node {
	return Div(key(f), When(f.Known, func() Node { return Group{f.params(), f.rights()} }))
}

func (f signedFacts) params() Node {
	if len(f.Params) == 0 {
		return P(Class("sub"), Text("It has no parameters."))
	}
	return Group{
		H3(Text("Parameters")), named(f.Params),
		If(f.Left > 0, P(Class("sub"), Text("and "+plural(f.Left, "more", "more")))),
	}
}

func (f signedFacts) rights() Node {
	orNothing := func(list string) Node {
		if list == "" {
			return Text("nothing")
		}
		return Code(Text(list))
	}
	return Dl(Class("facts rights"),
		With(f.Certificate, func(certificate string) Node { return fact("Signed by", Text(certificate)) }),
		fact("May call", orNothing(f.Allow)),
		fact("May destroy", orNothing(f.Targets)),
		fact("At most", Text(plural(f.Calls, "call", "calls"))),
		With(f.Secrets, func(secrets string) Node { return fact("Secrets", Code(Text(secrets))) }))
}

func (s sourceRow) html() Node {
	switch {
	case s.File != "":
		return Tr(key(s), Class("file"), Th(ColSpan("2"), Scope("rowgroup"), Text(s.File)))
	case s.Left > 0:
		return Tr(key(s), Class("gap"), Td(), Td(Text(plural(s.Left, "line is", "lines are")+" left out")))
	}
	return Tr(key(s), ID(s.ID), With(s.Kind(), func(kind string) Node { return Class("at-" + kind) }),
		cell("n ln", "", number(s.Line)),
		Td(Code(Text(s.Text)), When(len(s.Marks) > 0, s.marks)))
}

// marks shows what happens at the line.
func (s sourceRow) marks() Node {
	all := Group{Class("mk"), glyph(s.Kind())}
	for i, m := range s.Marks {
		mark := Text(m.Text)
		if m.Call > 0 {
			mark = A(Href(callPlace(m.Call)), mark)
		}
		all = append(all, If(i > 0, Text(", ")), mark)
	}
	return Span(all, If(s.More > 0, Text(", "+digits(s.More)+" more")))
}

func (s scale) html() Node {
	return Div(Class("scale"), key(s), Data("from", millis(s.From)), If(s.Open, Mark("open")),
		H2(Text("Calls")), legendList(), When(!s.From.IsZero(), s.length))
}

func (s scale) length() Node {
	end := ", " + duration(s.Length()) + " in all"
	if s.Open {
		end = " to now"
	}
	return P(Class("sub"), Text("from "), clock(s.From), Text(end), With(s.Attempts, func(page string) Node {
		return Group{Text(" · "), A(Href(page), Text("Timeline with each attempt"))}
	}))
}

func (c callRow) html() Node {
	return Tr(ID("call-"+digits(c.Seq)), key(c), Data("state", string(c.Shown())), If(c.Fatal, Class("fatal")),
		cell("sq n", "", A(Class("soft"), Href(callPlace(c.Seq)), opens(), number(c.Seq))),
		cell("st", "", stateTag(c.Shown())),
		cell("op", "", c.operation()),
		cell("no", "node", c.place()),
		cell("tr", "attempts", number(c.Attempt), If(c.Delivery > 1, sub("sent "+digits(c.Delivery)+"×"))),
		cell("line", "", picture("line", c.box(), Role("img"), Aria("label", c.inWords()), bars(c.Bars()))),
		cell("tk n", "took", tookOr(c.Took(), c.Shown() == writ.CallRunning, c.Started)))
}

// operation shows the requested operation and its error.
func (c callRow) operation() Node {
	return Group{
		Code(Class("name"), Text(c.Operation)), bold(c.Name), sub(string(c.Change)), c.after(),
		With(c.Position, func(position string) Node { return Group{Text(" "), Span(Class("sub pos"), Text(position))} }),
		When(c.Error != nil, func() Node {
			return Span(Class("why"), Code(Title(c.Explain()), Text(c.Error.Code)), Text(" "+c.Error.Message),
				With(c.Error.Hint, func(hint string) Node { return Group{Text(" "), Em(Text(hint))} }))
		}),
		waits(c.Reason),
		c.Unheard.html(),
	}
}

// after links to the calls that this call depends on.
func (c callRow) after() Node {
	if len(c.After) == 0 {
		return nil
	}
	all := Group{Text("after ")}
	for i, seq := range c.After {
		all = append(all, If(i > 0, Text(", ")), A(Class("soft"), Href(callPlace(seq)), number(seq)))
	}
	return subs(all)
}

// place shows the node of the call and its driver.
func (c callRow) place() Node {
	node := none()
	switch {
	case c.NodeName != "":
		node = Text(c.NodeName)
	case c.Node != "":
		node = Text(short(c.Node))
	}
	return Group{node, If(c.Driver != "simulated", sub(c.Driver)), simulated(c.Simulated)}
}

// box returns the coordinates of the bars of a call.
func (s scale) box() string { return "0 0 " + digits(s.Span) + " 10" }

// inWords describes the bars of a call as text.
func (c callRow) inWords() string {
	var all []string
	for _, b := range c.Bars() {
		text := b.Kind + " at " + digits(b.From) + " ms"
		if !b.Open {
			text += " for " + digits(b.Width) + " ms"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// bars differ in shape, too: a line for waiting, a frame for queued, a filled bar for running or success, two stripes
// for failure.
func bars(all []bar) Node {
	return Each(all, func(b bar) Node {
		class, from, width := "b-"+b.Kind, digits(b.From), digits(b.Width)
		if b.Open {
			class += " open"
		}
		switch {
		case b.Kind == "planned":
			return Rect(class, from, "4.4", width, "1.2")
		case b.Kind == "queued":
			return Rect(class, from, "2.5", width, "5")
		case b.Striped():
			return Group{Rect(class, from, ".5", width, "3"), Rect("b-"+b.Kind, from, "6.5", width, "3")}
		}
		return Rect(class, from, "1", width, "8")
	})
}

func legendList() Node {
	return Ul(Class("legend"), Each(legend(), func(l legendLine) Node {
		return Li(SVG("key", "0 0 10 10", Aria("hidden", "true"), bars(l.Bars)), Text(l.Text))
	}))
}
