package dashboard

import (
	"net/url"
	. "writ/coord/dashboard/markup"
)

// count links to a list and shows the number of its items.
type count struct {
	Name    string
	N       int
	Address string
	Chosen  bool // the list that the page shows
	IsState bool // Name is a state, which has a colour and a symbol
}

// countsOf returns a link for each value of a parameter, with the number of items. The link of the chosen value removes
// the parameter.
func countsOf[K ~string](own *url.URL, parameter string, values []K, numbers map[K]int) []count {
	chosen := own.Query().Get(parameter)
	all := make([]count, len(values))
	for i, v := range values {
		all[i] = count{Name: string(v), N: numbers[v], Address: with(own, parameter, string(v)), Chosen: string(v) == chosen}
		if all[i].Chosen {
			all[i].Address = with(own, parameter, "")
		}
	}
	return all
}

func (c count) Key() string { return c.Name }

func (c count) html() Node {
	class, symbol := "count", Node(nil)
	if c.IsState {
		class, symbol = class+" s-"+c.Name, glyph(c.Name)
	}
	if c.N == 0 {
		class += " zero"
	}
	return A(Class(class), Href(c.Address), key(c), If(c.Chosen, Aria("current", "true")), B(number(c.N)),
		Span(symbol, Text(c.Name)))
}
