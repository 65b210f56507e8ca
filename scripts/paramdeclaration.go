package scripts

import (
	"fmt"
	"regexp"

	"github.com/d5/tengo/v2/token"
)

// Contradiction returns the key of a declaration that contradicts the other keys, and the reason. It returns "" if no
// key does. enum is the value of the key `enum` in the declaration. For a list without the key `of`, it sets Of to
// "string".
func (p *Param) Contradiction(enum any) (key, why string) {
	base := p.Type
	switch {
	case p.Type == "list" && p.Of == "":
		p.Of = "string"
	case p.Type != "list" && p.Of != "":
		return "of", "only a list has `of`"
	}
	if p.Type == "list" {
		base = p.Of
	}
	switch {
	case p.Type == "bool" && (p.Min != nil || p.Max != nil):
		return "type", "a bool has no min and max"
	case p.Min != nil && p.Max != nil && *p.Min > *p.Max:
		return "min", fmt.Sprintf("min %d is more than max %d", *p.Min, *p.Max)
	case p.Pattern != "" && base != "string":
		return "pattern", "only strings have a pattern"
	case enum != nil && len(p.Enum) == 0:
		return "enum", "enum is a list of values"
	}
	if p.Pattern != "" {
		if _, err := regexp.Compile(p.Pattern); err != nil {
			return "pattern", fmt.Sprintf("the pattern cannot be read: %v", err)
		}
	}
	bare := Param{Type: base}
	for _, v := range p.Enum {
		if why := bare.Refuse(v); why != "" {
			return "enum", "a value of enum " + why
		}
	}
	return "", ""
}

// ValidParamName reports whether a script can read the parameter as p.name.
func ValidParamName(s string) bool {
	if s == "" {
		return false
	}
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return token.Lookup(s) == token.Ident
}
