package interpreter

import (
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"
	"github.com/rogpeppe/go-internal/diff"

	"writ/scripts"
)

// The widths of a layout, in bytes.
const (
	maxPrettyLine = 60
	onePerLine    = 0 // for a comparison
)

// layout formats values as a script would write them. A list or map of at most width bytes is on one line. A longer
// list or map has one element per line.
type layout struct {
	fuel  *meter
	width int
}

// difference describes how two values differ: on one line if both are short, otherwise line by line.
func difference(fuel *meter, got, want tengo.Object) (string, error) {
	g, w, err := layout{fuel, maxPrettyLine}.both(got, want)
	if err != nil {
		return "", err
	}
	switch {
	case g == w:
		return "got " + got.TypeName() + " " + g + ", want " + want.TypeName() + " " + w, nil
	case !strings.Contains(g, "\n") && !strings.Contains(w, "\n"):
		return "got " + g + ", want " + w, nil
	}
	// One element per line, so that equal elements have equal lines.
	if g, w, err = (layout{fuel, onePerLine}).both(got, want); err != nil {
		return "", err
	}
	if err := fuel.burnMemory(8 * (len(g) + len(w))); err != nil {
		return "", err
	}
	text := string(diff.Diff("want", []byte(w+"\n"), "got", []byte(g+"\n")))
	if _, rest, ok := strings.Cut(text, "@@\n"); ok { // the text before it holds only the names
		text = rest
	}
	return "not equal (-want +got):\n" + indent(strings.TrimSuffix(text, "\n")), nil
}

func (l layout) both(got, want tengo.Object) (g, w string, err error) {
	if g, err = l.value(got, 0); err == nil {
		w, err = l.value(want, 0)
	}
	return g, w, err
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// pretty formats a value for people.
func pretty(fuel *meter, o tengo.Object) (string, error) {
	return layout{fuel, maxPrettyLine}.value(o, 0)
}

// value formats a value at the given depth inside another.
func (l layout) value(o tengo.Object, depth int) (string, error) {
	if depth > maxDepth {
		return "", errDepth
	}
	if err := l.fuel.burn(4); err != nil {
		return "", err
	}
	if s, ok := o.(*tengo.String); ok {
		return strconv.Quote(s.Value), l.fuel.burnMemory(2 * len(s.Value))
	}
	var parts []string
	if list, ok := elementsOf(o); ok {
		for _, e := range list {
			text, err := l.value(e, depth+1)
			if err != nil {
				return "", err
			}
			parts = append(parts, text)
		}
		return l.bracket("[", parts, "]")
	}
	m, ok := pairsOf(o)
	if !ok {
		if o == tengo.UndefinedValue {
			return "undefined", nil
		}
		return text(l.fuel, o)
	}
	keys, err := l.fuel.keys(m)
	if err != nil {
		return "", err
	}
	for _, key := range keys {
		text, err := l.value(m[key], depth+1)
		if err != nil {
			return "", err
		}
		if !scripts.ValidParamName(key) {
			key = strconv.Quote(key)
		}
		parts = append(parts, key+": "+text)
	}
	return l.bracket("{", parts, "}")
}

// bracket joins elements on one line, or one per line.
func (l layout) bracket(begin string, parts []string, end string) (string, error) {
	size := 0
	for _, part := range parts {
		size += len(part) + 2
	}
	if err := l.fuel.burnMemory(2 * size); err != nil {
		return "", err
	}
	line := begin + strings.Join(parts, ", ") + end
	if len(parts) == 0 || len(line) <= l.width && !strings.Contains(line, "\n") {
		return line, nil
	}
	between := ",\n"
	if l.width == onePerLine {
		// Without commas, the last line of the shorter value equals a line of the longer value.
		between = "\n"
	}
	return begin + "\n" + indent(strings.Join(parts, between)) + "\n" + end, nil
}
