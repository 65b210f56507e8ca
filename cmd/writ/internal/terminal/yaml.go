package terminal

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oasdiff/yaml"

	"writ/internal/hidden"
	"writ/internal/lazyregexp"
)

// YAMLText returns v as YAML. It escapes unsafe characters in double-quoted strings, so the decoded value is unchanged.
//
// The YAML encoder does not escape hidden characters, and its parser rejects control characters that encoding/json does
// not escape. YAMLText therefore replaces each unsafe character, and U+0001, by its number between two U+0001
// characters, and replaces these marks by escapes after encoding.
func YAMLText(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err == nil {
		text, err = yaml.JSONToYAML([]byte(mark(string(text))))
	}
	if err != nil {
		return nil, fmt.Errorf("print as YAML: %w", err)
	}
	return marked.ReplaceAllFunc(text, func(found []byte) []byte { return fmt.Appendf(nil, `\U%s`, found[4:12]) }), nil
}

// marked matches the output of mark after encoding.
var marked = lazyregexp.New(`\\x01[0-9a-f]{8}\\x01`)

// mark replaces the unsafe characters of a JSON text and the escape of U+0001.
func mark(text string) string {
	const mark = `\u0001%08x\u0001`
	var b strings.Builder
	for i, part := range strings.Split(text, `\\`) { // each part after the first follows an escaped backslash
		switch {
		case i > 0 && strings.HasPrefix(part, "x01"): // otherwise it would look like a mark
			fmt.Fprintf(&b, mark, '\\')
		case i > 0:
			b.WriteString(`\\`)
		}
		part = strings.ReplaceAll(part, `\u0001`, "\x01")
		part = strings.ReplaceAll(strings.ReplaceAll(part, `\u2028`, "\u2028"), `\u2029`, "\u2029")
		for _, r := range part {
			if hidden.IsUnsafe(r) {
				fmt.Fprintf(&b, mark, r)
				continue
			}
			b.WriteRune(r)
		}
	}
	return misread.ReplaceAllStringFunc(b.String(), func(found string) string {
		for written, first := range map[string]rune{`"=`: '=', `"\u003c`: '<', `"\n`: '\n', `" `: ' '} {
			if rest, ok := strings.CutPrefix(found, written); ok {
				return fmt.Sprintf(`"`+mark+"%s", first, rest)
			}
		}
		return found
	})
}

// misread matches strings that the encoder writes in a form that YAML readers misinterpret: "=" and "<<", which YAML
// 1.1 reserves, and multi-line texts that start with a line end or a space. A match starts with a quote, and its next
// character is always part of a string.
var misread = lazyregexp.New(`"="|"\\u003c\\u003c"|"\\n|" (?:[^"\\]|\\[^"n])*\\n`)
