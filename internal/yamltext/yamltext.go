// Package yamltext reads YAML and JSON files without changing a value.
//
// YAML parsers resolve unquoted words: 2026-01-31 becomes a time, 0755 becomes 493, 1.10 becomes 1.1. This package
// keeps the text of the file: a number is a json.Number with its digits as written, a date is a string. Forms of
// numbers that JSON does not have are refused, as are a second document, a repeated key, merge keys and tags. The
// package does not interpret the values.
package yamltext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "github.com/oasdiff/yaml3"
)

// maxValues bounds the values of one file, because nested aliases can multiply the values of a small file.
const maxValues = 100_000

// Read returns the only document of a YAML or JSON file: nil, bool, string, json.Number, []any or map[string]any. An
// empty file is nil.
func Read(text []byte) (any, error) {
	if first := bytes.TrimSpace(text); len(first) > 0 && (first[0] == '{' || first[0] == '[') && utf8.Valid(text) &&
		json.Valid(text) {
		return readJSON(text)
	}
	return readYAML(text)
}

// Decode reads the only document of a YAML or JSON file into a value with json tags. It refuses fields that the value
// does not have.
func Decode(text []byte, into any) error {
	v, err := Read(text)
	if err != nil || v == nil {
		return err
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if ok && wrong.Type.String() == "string" {
		return fmt.Errorf("%s is a %s, and must be text: put it in quotes", wrong.Field, wrong.Value)
	}
	return err
}

func readYAML(text []byte) (any, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := d.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, placed(err)
	}
	var second yaml.Node
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, placed(err)
		}
		return nil, fmt.Errorf("line %d starts a second document; only one is allowed", second.Line)
	}
	r := reader{left: maxValues}
	return r.value(&document)
}

// Shape returns the type of the only document of a YAML file: "map", "list" or "text", or "" if it is empty. It accepts
// all of YAML. A key that is given twice is an error: parsers drop the first value without a message.
func Shape(text []byte) (string, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := d.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		return "", placed(err)
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return "", placed(err)
		}
		return "", fmt.Errorf("line %d begins a second document; a file has one document", second.Line)
	}
	content := document.Content[0]
	if err := repeatedKey(content); err != nil {
		return "", err
	}
	switch content.Kind {
	case yaml.MappingNode:
		return "map", nil
	case yaml.SequenceNode:
		return "list", nil
	}
	if content.ShortTag() == "!!null" {
		return "", nil
	}
	return "text", nil
}

// repeatedKey returns an error for the first key that a map contains twice. Merge keys may repeat.
func repeatedKey(n *yaml.Node) error {
	lines := make(map[string]int)
	for i, part := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && part.Kind == yaml.ScalarNode && part.ShortTag() != "!!merge" {
			if line, repeated := lines[part.Value]; repeated {
				return fmt.Errorf("line %d: %q is in line %d, too, and only the last value has an effect", part.Line,
					part.Value, line)
			}
			lines[part.Value] = part.Line
		}
		if err := repeatedKey(part); err != nil {
			return err
		}
	}
	return nil
}

// reader converts the nodes of one document.
type reader struct {
	left    int
	aliases []*yaml.Node // values of the aliases being expanded, outermost first
}

func (r *reader) value(n *yaml.Node) (any, error) {
	if r.left--; r.left < 0 {
		return nil, fmt.Errorf("the file has more than %d values", maxValues)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0])
	case yaml.AliasNode:
		if slices.Contains(r.aliases, n.Alias) {
			return nil, fmt.Errorf("line %d: *%s is a part of the value that it repeats", n.Line, n.Value)
		}
		r.aliases = append(r.aliases, n.Alias)
		v, err := r.value(n.Alias)
		r.aliases = r.aliases[:len(r.aliases)-1]
		return v, err
	case yaml.SequenceNode:
		return r.list(n)
	case yaml.MappingNode:
		return r.mapping(n)
	}
	return scalar(n)
}

func (r *reader) list(n *yaml.Node) (any, error) {
	list := make([]any, len(n.Content))
	for i, element := range n.Content {
		var err error
		if list[i], err = r.value(element); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (r *reader) mapping(n *yaml.Node) (any, error) {
	all := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch _, repeated := all[key.Value]; {
		case key.Kind == yaml.MappingNode:
			return nil,
				fmt.Errorf("line %d: a key must be text; a template such as {{ name }} must be filled in, or be in quotes",
					key.Line)
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a key must be text", key.Line)
		case key.ShortTag() == "!!merge":
			return nil, fmt.Errorf("line %d: merge keys (<<) are not supported", key.Line)
		case repeated:
			return nil, fmt.Errorf("line %d: the key %q is repeated", key.Line, key.Value)
		}
		v, err := r.value(n.Content[i+1])
		if err != nil {
			return nil, &keyError{key.Value, err}
		}
		all[key.Value] = v
	}
	return all, nil
}

// remedies maps a part of a parser message to its remedy.
var remedies = []struct{ part, remedy string }{
	{"cannot start any token", "a text that begins with @, `, % or a tab needs quotes; lines are indented with spaces"},
	{"mapping values are not allowed", "a text with \": \" needs quotes, and lines of one level begin in one column"},
	{"unexpected end of stream", "a quotation mark or bracket is not closed"},
	{"unknown escape character", "in double quotes a \\ is written \\\\; in single quotes it stays a single backslash"},
	{"incompatible YAML document", "remove the line %YAML"},
	{"<document start>", "a file has one document"},
	{"UTF-8", "save the file in UTF-8"},
	{"unknown anchor", "a text that begins with * needs quotes"},
}

// placed adds a remedy to an error of the parser, and the line number that the parser omits for line 1. Errors about
// the encoding get no line number.
func placed(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if inFile := strings.Contains(text, "UTF-") ||
		strings.Contains(text, "character"); !strings.HasPrefix(text, "line ") &&
		(!inFile || strings.Contains(text, "token")) {
		text = "line 1: " + text
	}
	for _, r := range remedies {
		if strings.Contains(text, r.part) {
			return fmt.Errorf("%s: %s", text, r.remedy)
		}
	}
	return errors.New(text)
}

// keyError adds the key of a value to its error.
type keyError struct {
	key string
	err error
}

func (e *keyError) Error() string { return e.key + ": " + e.err.Error() }

func (e *keyError) Unwrap() error { return e.err }

// scalar returns the value of a node as its text in the file.
func scalar(n *yaml.Node) (any, error) {
	tag := n.ShortTag()
	if n.Style&yaml.TaggedStyle != 0 && tag != "!!str" {
		return nil, fmt.Errorf("line %d: the tag %s is not supported", n.Line, n.Tag)
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return n.Value, nil
	}
	switch tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		if n.Value != "true" && n.Value != "false" {
			return nil, fmt.Errorf("line %d: write true or false instead of %s, or quote it: %q", n.Line, n.Value, n.Value)
		}
		return n.Value == "true", nil
	case "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			return nil, fmt.Errorf("line %d: %s is not a plain decimal number; as text it needs quotes: %s", n.Line, n.Value,
				strconv.Quote(n.Value))
		}
		return json.Number(n.Value), nil
	}
	return n.Value, nil
}
