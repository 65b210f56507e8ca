package scripts

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"writ"
)

// maxShown limits the bytes of a value in a message.
const maxShown = 60

// invalid returns the USAGE error of a value that does not fit the parameter. `why` continues the sentence "parameter
// n".
func (p *Param) invalid(why string) *writ.Error {
	e := writ.Errorf(writ.CodeUsage, "parameter %q%s", p.Name, why)
	switch line, file := p.example(); {
	case line != "":
		return e.WithHint("for example `-p %s=%s`, or `%s: %s` in a file for --params%s", p.Name, line, p.Name, file,
			p.about())
	case p.Help != "":
		return e.WithHint("%s", p.Help)
	}
	return e
}

// example returns a value of the parameter, as text for -p and for a YAML file. It is empty if the declaration suggests
// no valid value.
func (p *Param) example() (line, file string) {
	base := p.Type
	if p.Type == "list" {
		base = p.Of
	}
	switch list, _ := p.Default.([]any); {
	case len(list) > 0:
		line = fmt.Sprint(list[0])
	case p.Default != nil && p.Type != "list":
		line = fmt.Sprint(p.Default)
	case len(p.Enum) > 0:
		line = fmt.Sprint(p.Enum[0])
	case base == "bool":
		line = "true"
	case p.Type == "int" && p.Min != nil:
		line = strconv.FormatInt(*p.Min, 10)
	case base == "int":
		line = "3"
	case p.Type == "list" && p.Pattern == "":
		line = "a"
	}
	v, err := p.parse(line)
	if line == "" || strings.ContainsAny(line, " \t\n'\"`$,\\#:{}[]&*!|>%@") || err != nil || p.Refuse(v) != "" {
		return "", ""
	}
	if file = line; base == "string" {
		file = strconv.Quote(line)
	}
	if p.Type == "list" {
		file = "[" + file + "]"
	}
	return line, file
}

// typeText returns the message for a value v that does not have the type typ.
func typeText(typ string, v any) string {
	article := "a"
	if typ == "int" {
		article = "an"
	}
	return fmt.Sprintf("must be %s %s, not %s", article, typ, shownValue(v))
}

// shownValue formats a value for a message: scalars as in a file, other values by their kind.
func shownValue(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) <= maxShown {
			return "the text " + strconv.Quote(v)
		}
		end := maxShown
		for !utf8.RuneStart(v[end]) {
			end--
		}
		return "the text " + strconv.Quote(v[:end]+"…")
	case bool, int64, json.Number:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return "a value of another type"
}
