package dashboard

import (
	"writ"
	. "writ/coord/dashboard/markup"
)

func (v valuesPage) html(*page) Node {
	output := P(Class("sub"), Text("There is none."))
	if len(v.Output) > 0 {
		output = named(v.Output)
	}
	calls := Node(Each(v.Calls, callValues.html))
	if len(v.Calls) == 0 {
		calls = P(Class("sub"), Text("The script has made no calls yet."))
	}
	return Group{
		crumb(runPageOf(v.Run.ID), v.Run.Script),
		Section(Class("panel"), Aria("label", "Output"),
			H1(Text("Values of "+v.Run.Script)),
			P(Class("sub"), Text("As the datacenter answered when the page was loaded. It is not verified: "),
				Code(Text("writ run show "+string(v.Run.ID)+" --values"))),
			H2(Text("Output")), output),
		Section(Class("panel"), Aria("label", "Arguments and results"), H2(Text("Calls")), calls,
			between(v.First, v.Next, "More calls")),
	}
}

func (c callValues) html() Node {
	result := P(Class("sub"), Text("No result."))
	if len(c.Values) > 0 {
		result = Group{H4(Text("Result")), named(c.Values)}
	}
	name := ""
	if c.Name != "" {
		name = " " + c.Name
	}
	return Article(Class("values"), ID("call-"+digits(c.Seq)),
		H3(Text(digits(c.Seq)+" "), Code(Text(c.Operation)), Text(name+" "), stateTag(c.State)),
		If(len(c.Args) > 0, Group{H4(Text("Arguments")), named(c.Args)}), result)
}

func (l logPage) html(*page) Node {
	lines := P(Class("sub"), Text("The log is empty."))
	if len(l.Lines) > 0 {
		lines = logBox(Each(l.Lines, func(line writ.LogLine) Node {
			return Tr(cell("n ln", "", number(line.Ordinal)), cell("mk", "", clock(line.Time)), Td(Code(Text(line.Text))))
		}))
	}
	return Group{
		crumb(runPageOf(l.Run.ID), l.Run.Script),
		Section(Class("panel"), Aria("label", "Log"),
			H1(Text("Log of "+l.Run.Script)),
			P(Class("sub"), Text("As the datacenter answered when the page was loaded. To follow it: "),
				Code(Text("writ run logs "+string(l.Run.ID)+" --follow"))),
			lines, between(l.First, l.Next, "More lines")),
	}
}
