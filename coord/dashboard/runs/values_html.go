package runs

import (
	"writ"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

func (v valuesPage) HTML(*page.Page) Node {
	output := P(Class("sub"), Text("There is none."))
	if len(v.Output) > 0 {
		output = NamedList(v.Output)
	}
	calls := Node(Each(v.Calls, callValues.HTML))
	if len(v.Calls) == 0 {
		calls = P(Class("sub"), Text("The script has made no calls yet."))
	}
	return Group{
		Crumb(page.RunPage(v.Run.ID), v.Run.Script),
		Section(Class("panel"), Aria("label", "Output"),
			H1(Text("Values of "+v.Run.Script)),
			P(Class("sub"), Text("As the datacenter answered when the page was loaded. It is not verified: "),
				Code(Text("writ run show "+string(v.Run.ID)+" --values"))),
			H2(Text("Output")), output),
		Section(Class("panel"), Aria("label", "Arguments and results"), H2(Text("Calls")), calls,
			PageLinks(v.First, v.Next, "More calls")),
	}
}

func (c callValues) HTML() Node {
	result := P(Class("sub"), Text("No result."))
	if len(c.Values) > 0 {
		result = Group{H4(Text("Result")), NamedList(c.Values)}
	}
	name := ""
	if c.Name != "" {
		name = " " + c.Name
	}
	return Article(Class("values"), ID("call-"+Digits(c.Seq)),
		H3(Text(Digits(c.Seq)+" "), Code(Text(c.Operation)), Text(name+" "), StateTag(c.State)),
		If(len(c.Args) > 0, Group{H4(Text("Arguments")), NamedList(c.Args)}), result)
}

func (l logPage) HTML(*page.Page) Node {
	lines := P(Class("sub"), Text("The log is empty."))
	if len(l.Lines) > 0 {
		lines = LogBox(Each(l.Lines, func(line writ.LogLine) Node {
			return Tr(Cell("n ln", "", Number(line.Ordinal)), Cell("mk", "", Clock(line.Time)), Td(Code(Text(line.Text))))
		}))
	}
	return Group{
		Crumb(page.RunPage(l.Run.ID), l.Run.Script),
		Section(Class("panel"), Aria("label", "Log"),
			H1(Text("Log of "+l.Run.Script)),
			P(Class("sub"), Text("As the datacenter answered when the page was loaded. To follow it: "),
				Code(Text("writ run logs "+string(l.Run.ID)+" --follow"))),
			lines, PageLinks(l.First, l.Next, "More lines")),
	}
}
