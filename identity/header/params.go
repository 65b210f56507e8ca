package header

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"writ/internal/lazyregexp"
)

// maxInt is the largest integer in a params line, and -maxInt the smallest. Every JSON library keeps integers in this
// range exactly.
const maxInt = 1 << 53

var paramPattern = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// canonicalJSON encodes parameters canonically: sorted keys, no spaces, and strings escaped as in RFC 8785. It also
// escapes U+007F to U+009F as \u00xx, so that the line has no control characters. Values are string, bool, int64 within
// ±2^53, and lists of these.
func canonicalJSON(params map[string]any) ([]byte, error) {
	b := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(params)) {
		if !paramPattern.MatchString(name) {
			return nil, fmt.Errorf("%q is not the name of a parameter", Clip(name))
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, name), ':')
		var err error
		if b, err = appendValue(b, params[name], true); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return append(b, '}'), nil
}

func appendValue(b []byte, v any, lists bool) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return appendString(b, v)
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		if v > maxInt || v < -maxInt {
			return nil, fmt.Errorf("%d is outside of ±2^53", v)
		}
		return strconv.AppendInt(b, v, 10), nil
	case []any:
		if !lists {
			return nil, errors.New("nested lists are not allowed")
		}
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendValue(b, e, false); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	default:
		return nil, fmt.Errorf("a %T is not allowed; only string, bool, int and lists of these are", v)
	}
}

func appendString(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("a string is not UTF-8")
	}
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < 0x20 || r >= 0x7f && r <= 0x9f:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"'), nil
}

// parseParams parses a JSON object of parameters. It does not require the canonical form, which callers check by
// comparison.
func parseParams(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var params map[string]any
	if err := d.Decode(&params); err != nil || params == nil {
		return nil, errors.New("the parameters are not a JSON object")
	}
	if d.InputOffset() != int64(len(text)) {
		return nil, errors.New("text follows the parameters")
	}
	for name, v := range params {
		v, err := paramValue(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Clip(name), err)
		}
		params[name] = v
	}
	if len(params) == 0 {
		return nil, nil
	}
	return params, nil
}

func paramValue(v any) (any, error) {
	switch v := v.(type) {
	case string, bool:
		return v, nil
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not an integer", Clip(v.String()))
		}
		return n, nil
	case []any:
		for i, e := range v {
			if _, nested := e.([]any); nested {
				return nil, errors.New("nested lists are not allowed")
			}
			var err error
			if v[i], err = paramValue(e); err != nil {
				return nil, err
			}
		}
		return v, nil
	default:
		return nil, errors.New("only string, bool, int and lists of these are allowed")
	}
}
