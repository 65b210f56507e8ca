package scripts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"writ"
	"writ/internal/meant"
)

// Param is a declared parameter of a script: params := {count: {type: "int", default: 2, min: 1, help: "how many"}}.
type Param struct {
	Name    string `json:"name"`
	Type    string `json:"type"`              // string, bool, int or list
	Of      string `json:"of,omitempty"`      // elements of a list: string, bool or int
	Default any    `json:"default,omitempty"` // nil if the parameter is required
	// Min and Max limit the value of an int, the bytes of a string, or the number of elements of a list.
	Min     *int64 `json:"min,omitempty"`
	Max     *int64 `json:"max,omitempty"`
	Enum    []any  `json:"enum,omitempty"`    // the only valid values, or elements of a list
	Pattern string `json:"pattern,omitempty"` // RE2; must match a whole string, or each element of a list
	Help    string `json:"help,omitempty"`
}

// Params lists the declared parameters of a script.
type Params []Param

// maxInt limits ints in signed headers, because not every JSON library represents larger ints exactly.
const maxInt = 1 << 53

// Named returns the parameter with a name.
func (ps Params) Named(name string) (*Param, bool) {
	for i := range ps {
		if ps[i].Name == name {
			return &ps[i], true
		}
	}
	return nil, false
}

// Names returns the names, sorted.
func (ps Params) Names() []string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.Name
	}
	slices.Sort(names)
	return names
}

// Fill returns the parameters of a run: the given values, and the defaults of all other parameters. An unknown, missing
// or invalid parameter is a USAGE error that names it.
func (ps Params) Fill(given map[string]any) (map[string]any, error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := ps.Named(name); !ok {
			return nil, ps.unknown(name)
		}
	}
	if err := ps.missing(given); err != nil {
		return nil, err
	}
	filled := make(map[string]any, len(ps))
	for _, p := range ps {
		v, ok := given[p.Name]
		if !ok {
			v = p.Default
		}
		if why := p.Refuse(v); why != "" {
			return nil, p.invalid(" " + why)
		}
		filled[p.Name] = v
	}
	return filled, nil
}

// missing returns an error that names all parameters without a value or a default, or nil.
func (ps Params) missing(given map[string]any) error {
	var names, flags []string
	for _, p := range ps {
		if _, ok := given[p.Name]; !ok && p.Default == nil {
			names = append(names, strconv.Quote(p.Name))
			flags = append(flags, fmt.Sprintf("-p %s=…%s", p.Name, p.about()))
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return writ.Errorf(writ.CodeUsage, "parameter %s is missing", names[0]).WithHint("give it with %s", flags[0])
	}
	return writ.Errorf(writ.CodeUsage, "%d parameters are missing: %s", len(names), strings.Join(names, ", ")).
		WithHint("give them with %s", strings.Join(flags, " "))
}

func (p Param) about() string {
	if p.Help == "" {
		return ""
	}
	return " (" + p.Help + ")"
}

func (ps Params) unknown(name string) error {
	err := writ.Errorf(writ.CodeUsage, "the script has no parameter %q", name)
	if closest := meant.Closest(name, ps.Names()); closest != "" {
		return err.WithHint("did you mean %q?", closest)
	}
	return err.WithHint("%s", ps.have())
}

// have lists the parameters in a sentence.
func (ps Params) have() string {
	if len(ps) == 0 {
		return "the script has no parameters"
	}
	return "the parameters of the script are " + strings.Join(ps.Names(), ", ")
}

// ParseParam parses name=value from a command line, according to the type of the parameter. A list is a,b,c or a JSON
// list.
func (ps Params) ParseParam(text string) (name string, value any, err error) {
	name, raw, ok := strings.Cut(text, "=")
	if !ok {
		return "", nil, writ.Errorf(writ.CodeUsage, "%q is not a parameter; write name=value", text).WithHint("%s", ps.have())
	}
	p, ok := ps.Named(name)
	if !ok {
		return "", nil, ps.unknown(name)
	}
	if value, err = p.parse(raw); err != nil {
		return "", nil, p.invalid(": " + err.Error())
	}
	if why := p.Refuse(value); why != "" {
		return "", nil, p.invalid(" " + why)
	}
	return name, value, nil
}

func (p *Param) parse(raw string) (any, error) {
	if p.Type == "list" {
		return parseList(p.Of, raw)
	}
	return parseScalar(p.Type, raw)
}

func parseScalar(typ, raw string) (any, error) {
	switch typ {
	case "int":
		n, err := strconv.ParseInt(raw, 10, 64)
		if errors.Is(err, strconv.ErrRange) {
			return nil, fmt.Errorf("%s exceeds the range of whole numbers in scripts", raw)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", raw)
		}
		return n, nil
	case "bool":
		if raw != "true" && raw != "false" {
			return nil, fmt.Errorf("%q is neither true nor false", raw)
		}
		return raw == "true", nil
	default:
		return raw, nil
	}
}

func parseList(of, raw string) (any, error) {
	list := []any{}
	if strings.HasPrefix(raw, "[") {
		d := json.NewDecoder(bytes.NewReader([]byte(raw)))
		d.UseNumber()
		if err := d.Decode(&list); err != nil || !atEnd(d) {
			return nil, fmt.Errorf("%q is not a JSON list: write a,b or [\"a\", \"b\"]", raw)
		}
		for i := range list {
			if n, ok := list[i].(json.Number); ok {
				whole, err := n.Int64()
				if err != nil {
					return nil, fmt.Errorf("%s is not a whole number", n)
				}
				list[i] = whole
			}
		}
		return list, nil
	}
	if raw == "" {
		return list, nil
	}
	for part := range strings.SplitSeq(raw, ",") {
		v, err := parseScalar(of, part)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// atEnd reports whether only white space follows the value that d has read.
func atEnd(d *json.Decoder) bool {
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}

// Refuse returns why v does not fit the parameter, or "" if it fits.
func (p *Param) Refuse(v any) string {
	if p.Type != "list" {
		if why := p.refuseScalar(p.Type, v); why != "" {
			return why
		}
		switch v := v.(type) {
		case int64:
			return p.outOfBounds(v, "be", "")
		case string:
			return p.outOfBounds(int64(len(v)), "have", " bytes")
		}
		return ""
	}
	list, ok := v.([]any)
	if !ok {
		return typeText("list", v)
	}
	for i, e := range list {
		if why := p.refuseScalar(p.Of, e); why != "" {
			return fmt.Sprintf("has an invalid element %d: it %s", i, why)
		}
	}
	return p.outOfBounds(int64(len(list)), "have", " elements")
}

func (p *Param) refuseScalar(typ string, v any) string {
	switch v := v.(type) {
	case int64:
		if typ != "int" {
			return typeText(typ, v)
		}
		if v > maxInt || v < -maxInt {
			return "must be within ±2^53"
		}
	case string:
		if typ != "string" {
			return typeText(typ, v)
		}
		if !p.matches(v) {
			return fmt.Sprintf("must match %s, not %q", p.Pattern, v)
		}
	case bool:
		if typ != "bool" {
			return typeText(typ, v)
		}
	default:
		return typeText(typ, v)
	}
	if p.Enum != nil && !slices.Contains(p.Enum, v) {
		return fmt.Sprintf("must be one of %s, not %s", enumText(p.Enum), shownValue(v))
	}
	return ""
}

func (p *Param) matches(text string) bool {
	if p.Pattern == "" {
		return true
	}
	pattern, err := wholePattern(p.Pattern)
	return err == nil && pattern.MatchString(text)
}

// wholePattern compiles a pattern that must match a whole text.
func wholePattern(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`^(?:` + pattern + `)$`)
}

func enumText(enum []any) string {
	texts := make([]string, len(enum))
	for i, v := range enum {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ", ")
}

func (p *Param) outOfBounds(n int64, verb, unit string) string {
	switch {
	case p.Min != nil && n < *p.Min && p.Max != nil, p.Max != nil && n > *p.Max && p.Min != nil:
		return fmt.Sprintf("must %s %d to %d%s, not %d", verb, *p.Min, *p.Max, unit, n)
	case p.Min != nil && n < *p.Min:
		return fmt.Sprintf("must %s at least %d%s, not %d", verb, *p.Min, unit, n)
	case p.Max != nil && n > *p.Max:
		return fmt.Sprintf("must %s at most %d%s, not %d", verb, *p.Max, unit, n)
	default:
		return ""
	}
}
