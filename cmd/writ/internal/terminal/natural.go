package terminal

import (
	"cmp"
	"slices"
	"strings"
)

// SortedNames returns a sorted copy of names in natural order: "ci-2" comes before "ci-10".
func SortedNames(names []string) []string {
	return slices.SortedFunc(slices.Values(names), CompareNames)
}

// CompareNames compares names in natural order. Numbers in names are compared by value.
func CompareNames(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// digits counts the leading digits of text.
func digits(text string) int { return len(text) - len(strings.TrimLeft(text, "0123456789")) }
