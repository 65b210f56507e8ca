package scripts

import (
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"
	"github.com/rogpeppe/go-internal/diff"
)

// maxPrettyLine is how long a value may be to stay on one line.
const maxPrettyLine = 60

// difference says how two values differ: in one line if both are short, line by line otherwise.
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
	if g, w, err = p.prettyBoth(got, want, 0); err != nil { // an element a line in both, so that equal ones have equal lines
		return "", err
	}
	if err := p.keep(8 * (len(g) + len(w))); err != nil {
		return "", err
	}
	text := string(diff.Diff("want", []byte(w+"\n"), "got", []byte(g+"\n")))
	if _, rest, ok := strings.Cut(text, "@@\n"); ok { // what is above says only the names
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

// pretty prints a value as a script would write it. What does not fit a line has an element a line.
func (p *pass) pretty(o tengo.Object) (string, error) {
	return p.prettyAt(o, 0, maxPrettyLine)
}

// prettyAt prints a value that is depth deep in another. It stays on its line if that has at most so many bytes.
func (p *pass) prettyAt(o tengo.Object, depth, most int) (string, error) {
	if depth > maxDepth {
		return "", errDepth
	}
	if err := p.burn(4); err != nil {
		return "", err
	}
	if s, ok := o.(*tengo.String); ok {
		return strconv.Quote(s.Value), p.keep(2 * len(s.Value))
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
		if !paramName(key) {
			key = strconv.Quote(key)
		}
		parts = append(parts, key+": "+text)
	}
	return p.bracket("{", parts, "}", most)
}

// bracket joins elements on one line, or one each.
func (p *pass) bracket(begin string, parts []string, end string, most int) (string, error) {
	size := 0
	for _, part := range parts {
		size += len(part) + 2
	}
	if err := p.keep(2 * size); err != nil {
		return "", err
	}
	line := begin + strings.Join(parts, ", ") + end
	if len(parts) == 0 || len(line) <= most && !strings.Contains(line, "\n") {
		return line, nil
	}
	between := ",\n"
	if most == 0 { // for a comparison: without commas the last line of the shorter one has its equal in the longer
		between = "\n"
	}
	return begin + "\n" + indent(strings.Join(parts, between)) + "\n" + end, nil
}
