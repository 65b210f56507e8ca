package interpreter

import (
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"
	"github.com/rogpeppe/go-internal/diff"

	"writ/scripts"
)

// maxPrettyLine is the maximum length of a value on one line, in bytes.
const maxPrettyLine = 60

// difference describes how two values differ: on one line if both are short, otherwise line by line.
func (p *pass) difference(got, want tengo.Object) (string, error) {
	g, w, err := p.prettyBoth(got, want, maxPrettyLine)
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
	if g, w, err = p.prettyBoth(got, want, 0); err != nil {
		return "", err
	}
	if err := p.burnMemory(8 * (len(g) + len(w))); err != nil {
		return "", err
	}
	text := string(diff.Diff("want", []byte(w+"\n"), "got", []byte(g+"\n")))
	if _, rest, ok := strings.Cut(text, "@@\n"); ok { // the text before it holds only the names
		text = rest
	}
	return "not equal (-want +got):\n" + indent(strings.TrimSuffix(text, "\n")), nil
}

func (p *pass) prettyBoth(got, want tengo.Object, most int) (g, w string, err error) {
	if g, err = p.prettyAt(got, 0, most); err == nil {
		w, err = p.prettyAt(want, 0, most)
	}
	return g, w, err
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// pretty formats a value as a script would write it. A value that does not fit on a line has one element per line.
func (p *pass) pretty(o tengo.Object) (string, error) {
	return p.prettyAt(o, 0, maxPrettyLine)
}

// prettyAt formats a value at the given depth inside another. A value of at most most bytes stays on one line.
func (p *pass) prettyAt(o tengo.Object, depth, most int) (string, error) {
	if depth > maxDepth {
		return "", errDepth
	}
	if err := p.burn(4); err != nil {
		return "", err
	}
	if s, ok := o.(*tengo.String); ok {
		return strconv.Quote(s.Value), p.burnMemory(2 * len(s.Value))
	}
	var parts []string
	if list, ok := elementsOf(o); ok {
		for _, e := range list {
			text, err := p.prettyAt(e, depth+1, most)
			if err != nil {
				return "", err
			}
			parts = append(parts, text)
		}
		return p.bracket("[", parts, "]", most)
	}
	m, ok := pairsOf(o)
	if !ok {
		if o == tengo.UndefinedValue {
			return "undefined", nil
		}
		return p.text(o)
	}
	keys, err := p.keys(m)
	if err != nil {
		return "", err
	}
	for _, key := range keys {
		text, err := p.prettyAt(m[key], depth+1, most)
		if err != nil {
			return "", err
		}
		if !scripts.ValidParamName(key) {
			key = strconv.Quote(key)
		}
		parts = append(parts, key+": "+text)
	}
	return p.bracket("{", parts, "}", most)
}

// bracket joins elements on one line, or one per line.
func (p *pass) bracket(begin string, parts []string, end string, most int) (string, error) {
	size := 0
	for _, part := range parts {
		size += len(part) + 2
	}
	if err := p.burnMemory(2 * size); err != nil {
		return "", err
	}
	line := begin + strings.Join(parts, ", ") + end
	if len(parts) == 0 || len(line) <= most && !strings.Contains(line, "\n") {
		return line, nil
	}
	between := ",\n"
	if most == 0 {
		// For a comparison: without commas, the last line of the shorter value equals a line of the longer one.
		between = "\n"
	}
	return begin + "\n" + indent(strings.Join(parts, between)) + "\n" + end, nil
}
