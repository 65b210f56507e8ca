// Package widget has the building blocks of pages: cells of tables, facts, forms, times, states with their symbols, and
// the formats of numbers and durations. They are built from elements of package markup, so their HTML is safe with any
// text. Files that describe HTML import this package with a dot, like markup. It is independent of the pages.
package widget

import (
	"strconv"
	"strings"
	"time"

	. "writ/coord/dashboard/markup"
)

// Number renders a number without separators.
func Number[N ~int | ~int64](n N) Node { return Text(Digits(n)) }

// Digits formats a number without separators.
func Digits[N ~int | ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// Opens marks the link that a script focuses when the reader selects its row with the keyboard.
func Opens() Node { return Mark("open") }

// Sub renders secondary text after a space, or an empty node for "".
func Sub(s string) Node {
	return With(s, func(s string) Node { return Subs(Text(s)) })
}

// Subs renders nodes as secondary text after a space.
func Subs(children ...Node) Node {
	return Group{Text(" "), Span(Class("sub"), Group(children))}
}

// None renders the placeholder of an empty value.
func None() Node { return Span(Class("none"), Text("–")) }

// Why renders an error, or an empty node for "".
func Why(s string) Node {
	return With(s, func(s string) Node { return Span(Class("why"), Text(s)) })
}

// Waits returns the reason of a wait, or an empty node for "".
func Waits(s string) Node {
	return With(s, func(s string) Node { return Span(Class("waits"), Text(s)) })
}

// Bold renders a bold text after a space, or an empty node for "".
func Bold(s string) Node {
	return With(s, func(s string) Node { return Group{Text(" "), B(Text(s))} })
}

// Tag renders a word in a frame after a space, or an empty node for "".
func Tag[S ~string](s S) Node {
	return With(s, func(s S) Node { return Group{Text(" "), Span(Class("tag"), Text(s))} })
}

// OrNone renders a text, or the placeholder of an empty value.
func OrNone(s string) Node { return WithOrNone(s, Text) }

// WithOrNone renders a node for a text, or the placeholder of an empty value.
func WithOrNone(s string, node func(s string) Node) Node {
	if s == "" {
		return None()
	}
	return node(s)
}

// Cell is a table cell with a class and, for narrow screens, the name of its column; "" for none.
func Cell(class, label string, children ...Node) Node {
	return Td(If(class != "", Class(class)), If(label != "", Data("label", label)), Group(children))
}

// Heads renders column heads. The prefix # marks a column of numbers.
func Heads(names ...string) Node {
	return THead(Tr(HeadCells(names...)))
}

// HeadCells returns the cells of a table's head. A name that starts with # aligns its column to the right.
func HeadCells(names ...string) Node {
	return Each(names, func(name string) Node {
		name, right := strings.CutPrefix(name, "#")
		return Th(Scope("col"), If(right, Class("n")), Text(name))
	})
}

// Fact is an entry of a list of facts.
func Fact(name string, children ...Node) Node {
	return Div(Dt(Text(name)), Dd(children...))
}

// WideFact returns a fact that takes a whole row.
func WideFact(name string, children ...Node) Node {
	return Div(Class("wide"), Dt(Text(name)), Dd(children...))
}

// Copyable renders a shell command with a copy button. An empty command renders an empty node.
func Copyable(line string) Node {
	return With(line, func(line string) Node {
		return Span(Class("copy"), Code(Text(line)),
			Button(Type("button"), Data("copy", line), Aria("label", "Copy "+line), Text("copy")))
	})
}

// Age renders a time. A script replaces it with the elapsed time in words such as "2 min ago".
func Age(t time.Time) Node { return Time(DateTime(Millis(t)), Mark("age"), Text(Stamp(t))) }

// AgeOr renders a time as its age, or another node for the zero time.
func AgeOr(t time.Time, none Node) Node {
	if t.IsZero() {
		return none
	}
	return Age(t)
}

// SinceTime renders a start time. A script replaces it with the elapsed time and keeps it up to date.
func SinceTime(t time.Time) Node {
	return Time(DateTime(Millis(t)), Mark("since"), Text("since "+Stamp(t)))
}

// Clock renders a time that a script converts to the reader's time zone.
func Clock(t time.Time) Node { return Time(DateTime(Millis(t)), Mark("clock"), Text(Stamp(t))) }

// Simulated marks simulated resources.
func Simulated(is bool) Node {
	return If(is, Group{Text(" "), SimulatedTag()})
}

// SimulatedTag marks a resource of a simulated driver.
func SimulatedTag() Node {
	return Span(Class("simulated"), Title("Simulated: the driver created no resource"), Text("simulated"))
}

// StateTag renders a state with its symbol.
func StateTag[S ~string](state S) Node {
	return Span(Class("state s-"+string(state)), Glyph(string(state)), Text(state))
}

// FilterForm is the form that filters a list. With scripts, only the list is reloaded.
func FilterForm(address string, children ...Node) Node {
	return Form(Class("filter"), Action(address), Method("get"), HX("get", address), HX("trigger", "change, submit"),
		HX("target", "#list"),
		HX("select", "#list"), HX("swap", "outerHTML"), HX("push-url", "true"), Group(children))
}

// Apply is the submit button for browsers without scripts. `all` is the address of the unfiltered list.
func Apply(filtered bool, all string) Node {
	return Group{Button(Class("apply"), Text("Show")), If(filtered, A(Href(all), Text("Clear")))}
}

// Choice is a select field of a form.
func Choice(label, name string, options ...Node) Node {
	return Label(Span(Text(label)), Select(Name(name), ID("f-"+name), Group(options)))
}

// OptionOf returns an option of a select element.
func OptionOf(value, text string, chosen bool) Node {
	return Option(Value(value), If(chosen, Selected()), Text(text))
}

// SearchField is a text field of a form.
func SearchField(label, name, value, placeholder string) Node {
	return Label(Span(Text(label)),
		Input(Type("search"), Name(name), ID("f-"+name), Value(value), Placeholder(placeholder), AutoComplete("off"),
			SpellCheck("false"), Mark("search")))
}

// HiddenFields renders hidden fields for filters without a visible field.
func HiddenFields(all ...Named) Node {
	return Each(all, func(v Named) Node {
		return If(v.Text != "", Input(Type("hidden"), Name(v.Name), Value(v.Text)))
	})
}

// NamedList renders named values.
func NamedList(all []Named) Node {
	return Dl(Class("named"), Each(all, func(v Named) Node { return Div(Dt(Code(Text(v.Name))), Dd(Code(Text(v.Text)))) }))
}

// PageLinks links to the first and the next page of a list.
func PageLinks(first, next, what string, attributes ...Node) Node {
	return Nav(Class("pager"), Group(attributes), Aria("label", "More of the list"),
		With(first, func(first string) Node { return A(Href(first), Text("Back to the first")) }),
		With(next, func(next string) Node { return A(Href(next), Rel("next"), Text(what+" →")) }))
}

// Crumb links to the parent page.
func Crumb(address, text string) Node {
	return P(Class("crumb"), A(Href(address), Mark("up"), Text("← "+text)))
}

// TookOr renders the duration took. If took is 0, it renders since for running work, and otherwise the placeholder of
// an empty value.
func TookOr(took time.Duration, running bool, since time.Time) Node {
	switch {
	case took != 0:
		return Text(Duration(took))
	case running && !since.IsZero():
		return SinceTime(since)
	}
	return None()
}

// LogBox renders the lines of a log.
func LogBox(lines Node) Node {
	return Div(Class("code-box"), TabIndex("0"), Role("region"), Aria("label", "Lines of the log"),
		Table(Class("source"), TBody(lines)))
}

// Named is a named value as text.
type Named struct{ Name, Text string }
