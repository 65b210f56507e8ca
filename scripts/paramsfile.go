package scripts

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// FromFile converts the values of a file to parameters. A number in values is a json.Number with its original digits.
// The declared type of the parameter determines how the number is converted. An ambiguous value is a USAGE error with
// the name of the parameter and the remedy.
func (ps Params) FromFile(values map[string]any) (map[string]any, error) {
	given := make(map[string]any, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		p, ok := ps.Named(name)
		if !ok {
			return nil, ps.unknown(name)
		}
		v, err := p.fromFile(values[name])
		if err != nil {
			return nil, p.invalid(": " + err.Error())
		}
		if why := p.Refuse(v); why != "" {
			return nil, p.invalid(" " + why)
		}
		given[name] = v
	}
	return given, nil
}

func (p *Param) fromFile(v any) (any, error) {
	list, isList := v.([]any)
	switch {
	case v == nil:
		return nil, fmt.Errorf(`it has no value; leave it out, or write "" for an empty text`)
	case p.Type != "list":
		return scalarFromFile(p.Type, v)
	case !isList:
		return v, nil // FromFile rejects it by its type
	}
	converted := make([]any, len(list))
	for i, element := range list {
		var err error
		if converted[i], err = scalarFromFile(p.Of, element); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return converted, nil
}

// scalarFromFile converts a value to its declared type. It returns values of other types unchanged, and FromFile
// rejects them.
func scalarFromFile(typ string, v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return numberFromFile(typ, v)
	case bool:
		if typ == "string" {
			return nil, fmt.Errorf(`%t is not text without quotes: write "%t"`, v, v)
		}
	case string:
		if typ == "int" || typ == "bool" {
			return nil, fmt.Errorf("%q is text, and must be %s without quotes", v,
				map[string]string{"int": "a whole number", "bool": "true or false"}[typ])
		}
	case nil:
		return nil, fmt.Errorf(`it has no value; write "" for an empty text`)
	}
	return v, nil
}

func numberFromFile(typ string, v json.Number) (any, error) {
	if typ == "string" {
		return nil, fmt.Errorf(`%s is a number without quotes: write "%s"`, v, v)
	}
	n, err := v.Int64()
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, fmt.Errorf("%s exceeds the range of whole numbers in scripts", v)
	case err != nil:
		return nil, fmt.Errorf("%s is not a whole number", v)
	}
	return n, nil
}
