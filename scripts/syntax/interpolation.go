package syntax

import (
	"strings"

	"github.com/d5/tengo/v2/parser"

	"writ/internal/lazyregexp"
)

// Interpolation is a text with `${name}`, which other languages replace by the value of a variable.
type Interpolation struct {
	At        []InterpolatedName // in the order of the text, at least one
	Variables map[string]*Symbol // the variables that the names begin with at this place

	text *parser.StringLit
}

// InterpolatedName is the place of a `${name}`. The name is a variable, or ends with fields: "run.params.x".
type InterpolatedName struct {
	Name string
	Pos  parser.Pos // of the `${`
}

// interpolated matches `${name}`.
var interpolated = lazyregexp.New(`\$\{([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\}`)

// interpolations records a text with `${name}`.
func (r *resolver) interpolations(e *parser.StringLit) {
	if !strings.Contains(e.Literal, "${") {
		return
	}
	found := Interpolation{Variables: make(map[string]*Symbol), text: e}
	for _, at := range interpolated.FindAllStringSubmatchIndex(e.Literal, -1) {
		name := e.Literal[at[2]:at[3]]
		first, _, _ := strings.Cut(name, ".")
		if s := r.scope.find(first); s != nil && !s.Builtin {
			found.Variables[name] = s
		}
		found.At = append(found.At, InterpolatedName{name, e.ValuePos + parser.Pos(at[0])})
	}
	if len(found.At) > 0 {
		r.unit.Interpolations = append(r.unit.Interpolations, found)
	}
}

// SumOf returns a text with `${name}` as a sum of texts and variables, or "" for another text.
func SumOf(e *parser.StringLit) string {
	expressions := make(map[string]string)
	for _, at := range interpolated.FindAllStringSubmatch(e.Literal, -1) {
		expressions[at[1]] = at[1]
	}
	if len(expressions) == 0 {
		return ""
	}
	return Interpolation{text: e}.Sum(expressions)
}

// Sum returns the text as a sum of texts and expressions: `"web-" + x`. expressions maps names to expressions; other
// names stay in the text. Of a long text it returns only the part around the first expression.
func (i Interpolation) Sum(expressions map[string]string) string {
	const most = 48 // bytes
	quote, inside := i.text.Literal[:1], i.text.Literal[1:len(i.text.Literal)-1]
	short := len(inside) <= most && !strings.Contains(inside, "\n")
	var parts []string
	text := ""
	for from := 0; ; {
		at := interpolated.FindStringSubmatchIndex(inside[from:])
		if at == nil {
			text += inside[from:]
			break
		}
		expression := expressions[inside[from+at[2]:from+at[3]]]
		switch {
		case expression == "":
			text += inside[from : from+at[1]]
		case !short:
			return `"…" + ` + expression + ` + "…"`
		default:
			if text += inside[from : from+at[0]]; text != "" || len(parts) == 0 {
				parts = append(parts, quote+text+quote)
			}
			parts, text = append(parts, expression), ""
		}
		from += at[1]
	}
	if text != "" {
		parts = append(parts, quote+text+quote)
	}
	return strings.Join(parts, " + ")
}
