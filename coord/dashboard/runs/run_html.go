package runs

import (
	"strings"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

// runPage is the page of a run, which consists of parts only.
type runPage struct{}

func (runPage) HTML(p *page.Page) Node {
	return Group{
		Crumb("/", "Runs"),
		Div(p.Part("head"), p.Live()),
		Div(p.Part("output")),
		Section(Class("panel"), Aria("label", "Calls"),
			Div(p.Part("scale")),
			Table(Class("list calls"),
				THead(Tr(HeadCells("##", "State", "Call", "Node and driver", "Attempts"),
					Th(Scope("col"), Class("line"), Text("Time")), HeadCells("#Took"))),
				TBody(p.Part("calls"))),
			P(Class("empty"), Text("The script has made no calls yet.")),
			Div(p.Part("pager"))),
		Section(Class("panel"), Aria("label", "What was signed"),
			H2(Text("What was signed")),
			Div(p.Part("signed")),
			Div(Class("code-box"), TabIndex("0"), Role("region"), Aria("label", "The script"),
				Table(Class("source"), TBody(p.Part("source"))),
				P(Class("empty"),
					Text("The coordinator has no text of this run. It deletes refused submissions, and old runs except for the newest revisions.")))),
	}
}

func (h runHead) HTML() Node {
	return Div(page.Key(h), Data("state", string(h.State)), h.failure(),
		Section(Class("panel head"),
			Div(Class("title"), H1(Text(h.Script)), StateTag(h.State), h.duration()),
			With(h.Why, func(why string) Node { return P(Class("waits"), Glyph("waiting"), Text(why)) }),
			h.Unheard.HTML(),
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
		call = Text("call " + Digits(f.Seq))
		if h.Listed(f.Seq) {
			call = A(Href(page.CallPlace(f.Seq)), call)
		}
		call = Subs(Text("in "), call)
	}
	return Section(Class("panel failure"), Aria("label", "Why the run failed"),
		P(Class("code"), Glyph("failed"), Text(f.Code), call),
		P(Class("message"), Text(f.Message)),
		With(f.Hint, func(hint string) Node { return P(Class("hint"), Text(hint)) }),
		With(f.Position, func(position string) Node {
			place := Code(Text(position))
			if h.At != "" {
				place = A(Href("#"+h.At), place)
			}
			by := "called at "
			if f.Seq > 0 { // the first place needed the call, and the other places are callers
				by = "needed at "
			}
			return P(Class("where"), Text("at "), place, Each(f.Trace, func(caller string) Node {
				line := Group{Br(), Text(by), Code(Text(caller))}
				by = "called at "
				return line
			}))
		}),
		P(Class("note"), Text(f.Code.Info().Explain())))
}

func (h runHead) duration() Node {
	switch {
	case h.Took() != 0:
		return Span(Class("sub"), Text("took "+Duration(h.Took())))
	case h.State.Open():
		return Span(Class("sub"), SinceTime(h.Accepted))
	}
	return nil
}

func (h runHead) facts() Node {
	return Dl(Class("facts"),
		Fact("Run", Copyable(string(h.ID))),
		Fact("Signer", Text(h.Signer)),
		Fact("Project", page.ProjectText(h.ProjectName, h.Project)),
		With(h.Deployment, func(name string) Node {
			return Fact("Deployment", Text(name),
				When(h.Revision > 0, func() Node { return Sub("revision " + Digits(h.Revision)) }))
		}),
		Fact("Datacenter", Text(h.DatacenterName)),
		Fact("Submitted", Age(h.Created)),
		h.end(),
		With(page.Decided(h.Decided), func(decision string) Node { return Fact("Decided", Text(decision)) }),
		Fact("Calls", h.Calls.HTML()),
		Fact("Payload", Code(Title("SHA-256 of the signed text: "+h.Payload.String()), Text(Short(h.Payload)+"…"))))
}

// end shows the end of the run, or its deadline.
func (h runHead) end() Node {
	switch {
	case !h.Ended.IsZero():
		return Fact("Ended", Age(h.Ended))
	case !h.Deadline.IsZero():
		return Fact("Deadline", Age(h.Deadline))
	}
	return nil
}

// commands lists the commands for the run that the reader may use.
func (h runHead) commands() Node {
	line := func(does, verb string) Node {
		return Fact(does, Copyable("writ run "+verb+" "+string(h.ID)))
	}
	return Dl(Class("commands"),
		If(!h.Helps.IsZero(), Fact("What helps", helping(h.Helps))),
		line("Explain", "explain"),
		If(h.Resumable() && h.Controls, line("Resume", "resume")),
		If(h.State.Open() && h.Controls, line("Cancel", "cancel")),
		If(h.State.Open(), line("Follow", "watch")),
		Fact("Log", Copyable("writ run logs "+string(h.ID)),
			If(!h.Accepted.IsZero(), Group{Text(" "), A(Href(page.RunPage(h.ID)+"/log"), Text("show it"))})))
}

func (o output) HTML() Node {
	return Section(Class("panel"), Aria("label", "Output"), page.Key(o),
		H2(Text("Output")),
		o.values(),
		With(o.Link, func(link string) Node {
			return P(Class("links"), A(Href(link), Text("Arguments and results")),
				Subs(Text("are stored in the datacenter only: the page requests them")))
		}))
}

func (o output) values() Node {
	switch {
	case o.Wrong != "":
		return P(Class("why"), Text("The coordinator cannot show it: "+o.Wrong))
	case len(o.Values) > 0:
		return Group{
			NamedList(o.Values),
			P(Class("note"), Text("As the datacenter signed it. "), Code(Text("writ run show")), Text(" verifies that.")),
		}
	case o.Ended:
		return P(Class("sub"), Text("The run has no output."))
	}
	return P(Class("sub"), Text("The run has not ended."))
}

func (f signedFacts) HTML() Node {
	return Div(page.Key(f), When(f.Known, func() Node { return Group{f.params(), f.rights()} }))
}

func (f signedFacts) params() Node {
	if len(f.Params) == 0 {
		return P(Class("sub"), Text("It has no parameters."))
	}
	return Group{
		H3(Text("Parameters")), NamedList(f.Params),
		If(f.Left > 0, P(Class("sub"), Text("and "+Plural(f.Left, "more", "more")))),
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
		With(f.Certificate, func(certificate string) Node { return Fact("Signed by", Text(certificate)) }),
		Fact("May call", orNothing(f.Allow)),
		Fact("May destroy", orNothing(f.Targets)),
		Fact("At most", Text(Plural(f.Calls, "call", "calls"))),
		With(f.Secrets, func(secrets string) Node { return Fact("Secrets", Code(Text(secrets))) }))
}

func (s sourceRow) HTML() Node {
	switch {
	case s.File != "":
		return Tr(page.Key(s), Class("file"), Th(ColSpan("2"), Scope("rowgroup"), Text(s.File)))
	case s.Left > 0:
		return Tr(page.Key(s), Class("gap"), Td(), Td(Text(Plural(s.Left, "line is", "lines are")+" left out")))
	}
	return Tr(page.Key(s), ID(s.ID), With(s.Kind(), func(kind string) Node { return Class("at-" + kind) }),
		Cell("n ln", "", Number(s.Line)),
		Td(Code(Text(s.Text)), When(len(s.Marks) > 0, s.marks)))
}

// marks shows the events at the line.
func (s sourceRow) marks() Node {
	all := Group{Class("mk"), Glyph(s.Kind())}
	for i, m := range s.Marks {
		mark := Text(m.Text)
		if m.Call > 0 {
			mark = A(Href(page.CallPlace(m.Call)), mark)
		}
		all = append(all, If(i > 0, Text(", ")), mark)
	}
	return Span(all, If(s.More > 0, Text(", "+Digits(s.More)+" more")))
}

func (s scale) HTML() Node {
	return Div(Class("scale"), page.Key(s), Data("from", Millis(s.From)), If(s.Open, Mark("open")),
		H2(Text("Calls")), legendList(), When(!s.From.IsZero(), s.length))
}

func (s scale) length() Node {
	end := ", " + Duration(s.Length()) + " in all"
	if s.Open {
		end = " to now"
	}
	return P(Class("sub"), Text("from "), Clock(s.From), Text(end), With(s.Attempts, func(page string) Node {
		return Group{Text(" · "), A(Href(page), Text("Timeline with each attempt"))}
	}))
}

func (c callRow) HTML() Node {
	return Tr(ID("call-"+Digits(c.Seq)), page.Key(c), Data("state", string(c.Shown())), If(c.Fatal, Class("fatal")),
		Cell("sq n", "", A(Class("soft"), Href(page.CallPlace(c.Seq)), Opens(), Number(c.Seq))),
		Cell("st", "", StateTag(c.Shown())),
		Cell("op", "", c.operation()),
		Cell("no", "node", c.place()),
		Cell("tr", "attempts", Number(c.Attempt), If(c.Delivery > 1, Sub("sent "+Digits(c.Delivery)+"×"))),
		Cell("line", "", Picture("line", c.box(), Role("img"), Aria("label", c.inWords()), bars(c.Bars()))),
		Cell("tk n", "took", TookOr(c.Took(), c.Shown() == writ.CallRunning, c.Started)))
}

// operation shows the requested operation and its error.
func (c callRow) operation() Node {
	return Group{
		Code(Class("name"), Text(c.Operation)), Bold(c.Name), Sub(string(c.Change)), c.after(),
		With(c.Position, func(position string) Node { return Group{Text(" "), Span(Class("sub pos"), Text(position))} }),
		When(c.Error != nil, func() Node {
			return Span(Class("why"), Code(Title(c.Explain()), Text(c.Error.Code)), Text(" "+c.Error.Message),
				With(c.Error.Hint, func(hint string) Node { return Group{Text(" "), Em(Text(hint))} }))
		}),
		Waits(c.Reason),
		c.Unheard.HTML(),
	}
}

// after links to the calls that this call depends on.
func (c callRow) after() Node {
	if len(c.After) == 0 {
		return nil
	}
	all := Group{Text("after ")}
	for i, seq := range c.After {
		all = append(all, If(i > 0, Text(", ")), A(Class("soft"), Href(page.CallPlace(seq)), Number(seq)))
	}
	return Subs(all)
}

// place shows the node of the call and its driver.
func (c callRow) place() Node {
	node := None()
	switch {
	case c.NodeName != "":
		node = Text(c.NodeName)
	case c.Node != "":
		node = Text(Short(c.Node))
	}
	return Group{node, If(c.Driver != "simulated", Sub(c.Driver)), Simulated(c.Simulated)}
}

// box returns the coordinates of the bars of a call.
func (s scale) box() string { return "0 0 " + Digits(s.Span) + " 10" }

// inWords describes the bars of a call as text.
func (c callRow) inWords() string {
	var all []string
	for _, b := range c.Bars() {
		text := b.Kind + " at " + Digits(b.From) + " ms"
		if !b.Open {
			text += " for " + Digits(b.Width) + " ms"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// bars draws bars that differ in shape as well as in colour: a line for waiting, a frame for queued, a filled bar for
// running or success, two stripes for failure.
func bars(all []bar) Node {
	return Each(all, func(b bar) Node {
		class, from, width := "b-"+b.Kind, Digits(b.From), Digits(b.Width)
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
