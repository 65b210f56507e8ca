package page

import (
	"net/url"

	. "writ/coord/dashboard/markup"
	. "writ/coord/dashboard/widget"
)

// Count links to a list and shows the number of its items.
type Count struct {
	Name    string
	N       int
	Address string
	Chosen  bool // the page shows this list
	IsState bool // Name is a state, which has a colour and a symbol
}

// Counts returns a link for each value of a parameter, with the number of items. The link of the chosen value removes
// the parameter.
func Counts[K ~string](own *url.URL, parameter string, values []K, numbers map[K]int) []Count {
	chosen := own.Query().Get(parameter)
	all := make([]Count, len(values))
	for i, v := range values {
		all[i] = Count{
			Name: string(v), N: numbers[v], Address: Address(own, parameter, string(v)), Chosen: string(v) == chosen,
		}
		if all[i].Chosen {
			all[i].Address = Address(own, parameter, "")
		}
	}
	return all
}

// Key identifies the count on its page.
func (c Count) Key() string { return c.Name }

// HTML returns the count and its name as a link.
func (c Count) HTML() Node {
	class, symbol := "count", Node(nil)
	if c.IsState {
		class, symbol = class+" s-"+c.Name, Glyph(c.Name)
	}
	if c.N == 0 {
		class += " zero"
	}
	return A(Class(class), Href(c.Address), Key(c), If(c.Chosen, Aria("current", "true")), B(Number(c.N)),
		Span(symbol, Text(c.Name)))
}
