package dashboard

import (
	"strconv"
	"strings"
	"time"

	. "writ/coord/dashboard/markup"
)

// Building blocks of the pages.

// number renders a number, digits formats one.
func number[N ~int | ~int64](n N) Node   { return Text(digits(n)) }
func digits[N ~int | ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// opens marks the link of a row that the keyboard opens.
func opens() Node { return Mark("open") }

// sub renders small text after something, subs does so with nodes. They render nothing if it is empty.
func sub(s string) Node {
	return With(s, func(s string) Node { return subs(Text(s)) })
}

func subs(children ...Node) Node {
	return Group{Text(" "), Span(Class("sub"), Group(children))}
}

// none renders the placeholder of an empty value.
func none() Node { return Span(Class("none"), Text("–")) }

// why renders an error, waits the reason of a wait. Both render nothing if the text is empty.
func why(s string) Node {
	return With(s, func(s string) Node { return Span(Class("why"), Text(s)) })
}

func waits(s string) Node {
	return With(s, func(s string) Node { return Span(Class("waits"), Text(s)) })
}

// bold and tag render a text after something, if it is not empty.
func bold(s string) Node {
	return With(s, func(s string) Node { return Group{Text(" "), B(Text(s))} })
}

func tag[S ~string](s S) Node {
	return With(s, func(s S) Node { return Group{Text(" "), Span(Class("tag"), Text(s))} })
}

// orNone renders a text, or the placeholder of an empty value.
func orNone(s string) Node {
	if s == "" {
		return none()
	}
	return Text(s)
}

// cell is a table cell with a class and, for narrow screens, the name of its column; "" for none.
func cell(class, label string, children ...Node) Node {
	return Td(If(class != "", Class(class)), If(label != "", Data("label", label)), Group(children))
}

// heads renders column heads. The prefix # marks a column of numbers.
func heads(names ...string) Node {
	return THead(Tr(headCells(names...)))
}

func headCells(names ...string) Node {
	return Each(names, func(name string) Node {
		name, right := strings.CutPrefix(name, "#")
		return Th(Scope("col"), If(right, Class("n")), Text(name))
	})
}

// fact is an entry of a list of facts.
func fact(name string, children ...Node) Node {
	return Div(Dt(Text(name)), Dd(children...))
}

func wideFact(name string, children ...Node) Node {
	return Div(Class("wide"), Dt(Text(name)), Dd(children...))
}

// copyable renders a shell command with a copy button, nothing if it is empty.
func copyable(line string) Node {
	return With(line, func(line string) Node {
		return Span(Class("copy"), Code(Text(line)),
			Button(Type("button"), Data("copy", line), Aria("label", "Copy "+line), Text("copy")))
	})
}

// age renders a time that a script replaces by the elapsed time, sinceTime one that it replaces by the duration.
func age(t time.Time) Node { return Time(DateTime(millis(t)), Mark("age"), Text(stamp(t))) }

func sinceTime(t time.Time) Node {
	return Time(DateTime(millis(t)), Mark("since"), Text("since "+stamp(t)))
}

// clock renders a time that a script converts to the reader's time zone.
func clock(t time.Time) Node { return Time(DateTime(millis(t)), Mark("clock"), Text(stamp(t))) }

// simulated marks simulated resources.
func simulated(is bool) Node {
	return If(is, Group{Text(" "), simulatedTag()})
}

func simulatedTag() Node {
	return Span(Class("simulated"), Title("Simulated: the driver created no resource"), Text("simulated"))
}

// stateTag renders a state with its symbol.
func stateTag[S ~string](state S) Node {
	return Span(Class("state s-"+string(state)), glyph(string(state)), Text(state))
}

// filterForm is the form that filters a list. With scripts, only the list is reloaded.
func filterForm(address string, children ...Node) Node {
	return Form(Class("filter"), Action(address), Method("get"), HX("get", address), HX("trigger", "change, submit"),
		HX("target", "#list"),
		HX("select", "#list"), HX("swap", "outerHTML"), HX("push-url", "true"), Group(children))
}

// apply is the submit button for browsers without scripts. all is the address of the unfiltered list.
func apply(filtered bool, all string) Node {
	return Group{Button(Class("apply"), Text("Show")), If(filtered, A(Href(all), Text("Clear")))}
}

// choice is a select field of a form.
func choice(label, name string, options ...Node) Node {
	return Label(Span(Text(label)), Select(Name(name), ID("f-"+name), Group(options)))
}

func option(value, text string, chosen bool) Node {
	return Option(Value(value), If(chosen, Selected()), Text(text))
}

// searchField is a text field of a form.
func searchField(label, name, value, placeholder string) Node {
	return Label(Span(Text(label)),
		Input(Type("search"), Name(name), ID("f-"+name), Value(value), Placeholder(placeholder), AutoComplete("off"),
			SpellCheck("false"), Mark("search")))
}

// keeps renders hidden fields for filters without a visible field.
func keeps(all ...value) Node {
	return Each(all, func(v value) Node {
		return If(v.Text != "", Input(Type("hidden"), Name(v.Name), Value(v.Text)))
	})
}

// named renders named values.
func named(all []value) Node {
	return Dl(Class("named"), Each(all, func(v value) Node { return Div(Dt(Code(Text(v.Name))), Dd(Code(Text(v.Text)))) }))
}

// between links to the first and the next page of a list.
func between(first, next, what string, attributes ...Node) Node {
	return Nav(Class("pager"), Group(attributes), Aria("label", "More of the list"),
		With(first, func(first string) Node { return A(Href(first), Text("Back to the first")) }),
		With(next, func(next string) Node { return A(Href(next), Rel("next"), Text(what+" →")) }))
}

// crumb links to the parent page.
func crumb(address, text string) Node {
	return P(Class("crumb"), A(Href(address), Mark("up"), Text("← "+text)))
}

// tookOr renders the duration of something, or its start if it is running.
func tookOr(took time.Duration, running bool, since time.Time) Node {
	switch {
	case took != 0:
		return Text(duration(took))
	case running && !since.IsZero():
		return sinceTime(since)
	}
	return none()
}

// logBox renders the lines of a log.
func logBox(lines Node) Node {
	return Div(Class("code-box"), TabIndex("0"), Role("region"), Aria("label", "Lines of the log"),
		Table(Class("source"), TBody(lines)))
}

// value is a named value as text.
type value struct{ Name, Text string }
