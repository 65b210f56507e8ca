package yamltext

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadKeepsTheWrittenText(t *testing.T) {
	for text, want := range map[string]any{
		"":                         nil,
		"# nothing\n":              nil,
		"day: 2026-01-31":          map[string]any{"day": "2026-01-31"},
		"at: 2026-01-31T10:00:00Z": map[string]any{"at": "2026-01-31T10:00:00Z"},
		"tag: 1.10":                map[string]any{"tag": json.Number("1.10")},
		"big: 9223372036854775808": map[string]any{"big": json.Number("9223372036854775808")},
		"exp: 1e3":                 map[string]any{"exp": json.Number("1e3")},
		"no: no":                   map[string]any{"no": "no"},
		"ok: true":                 map[string]any{"ok": true},
		"a: ~":                     map[string]any{"a": nil},
		"time: 12:30":              map[string]any{"time": "12:30"},
		`mode: "0755"`:             map[string]any{"mode": "0755"},
		"mode: !!str 0755":         map[string]any{"mode": "0755"},
		"text: |\n  0755\n":        map[string]any{"text": "0755\n"},
		"list: [2026-01-31, 1]":    map[string]any{"list": []any{"2026-01-31", json.Number("1")}},
		"1.10: x":                  map[string]any{"1.10": "x"},
		"a: &x 5\nb: *x":           map[string]any{"a": json.Number("5"), "b": json.Number("5")},
		"{\"a\": \"\\ud83d\\ude00\",\n\t\"b\": 1}": map[string]any{"a": "😀", "b": json.Number("1")},
		"--- \na: 1\n": map[string]any{"a": json.Number("1")},
	} {
		got, err := Read([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
}

func TestReadRefusesAmbiguousText(t *testing.T) {
	bomb := "a: &a [1,1,1,1,1,1,1,1,1]\n"
	for _, c := range []string{"b", "c", "d", "e", "f", "g", "h"} {
		before := string(c[0] - 1)
		bomb += c + ": &" + c + " [" + strings.TrimSuffix(strings.Repeat("*"+before+",", 9), ",") + "]\n"
	}
	for text, want := range map[string]string{
		"mode: 0755":                 `mode: line 1: 0755 is not a plain decimal number; as text it needs quotes: "0755"`,
		"size: 1_000":                "1_000 is not a plain decimal number",
		"mask: 0x1F":                 "0x1F is not a plain decimal number",
		"mask: 0o17":                 "0o17 is not a plain decimal number",
		"n: +5":                      "+5 is not a plain decimal number",
		"f: .inf":                    ".inf is not a plain decimal number",
		"b: True":                    "write true or false",
		"a: 1\n---\na: 2\n":          "a second document",
		"a: 1\n---\n":                "a second document",
		"a: 1\na: 2":                 `the key "a" is repeated`,
		`{"a": 1, "a": 2}`:           `the key "a" is repeated`,
		`{"a": {"b": 1, "b":2}}`:     `the key "b" is repeated`,
		"a: !!int \"5\"":             "the tag !!int is not supported",
		"a: &x {b: 1}\nc:\n  <<: *x": "merge keys",
		`{"a": "\ud83d"}`:            "an escape that is not a character",
		"{\"a\": \"\xff\"}":          "invalid",
		"? [a]\n: 1":                 "a key must be text",
		"a: b: c":                    `line 1: mapping values are not allowed in this context: a text with ": " needs quotes`,
		"a: @b":                      "line 1: found character that cannot start any token: a text that begins with @",
		"a:\n\tb: c":                 "lines are indented with spaces",
		"a: 'b":                      "a quotation mark or bracket is not closed",
		"a: {{ version }}":           "line 1: a key must be text; a template such as {{ name }} must be filled in",
		"a: &x [*x]":                 "line 1: *x is a part of the value that it repeats",
		"a: *x":                      "a text that begins with * needs quotes",
		"a: \"\\q\"":                 "in single quotes it stays a single backslash",
		"%YAML 1.2\n---\na: b":       "remove the line %YAML",
		`{"a": 1} {"a": 2}`:          "a file has one document",
		"a: \xe9":                    "save the file in UTF-8",
		bomb:                         "more than 100000 values",
	} {
		if v, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v, want %q", text, v, err, want)
		}
	}
}

func TestShapeIsThatOfTheDocument(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "# a\n": "", "a: !tag b\nc: &x {d: 1}\n<<: *x": "map", "a: &x {b: 1}\nc: &y {d: 1}\ne: {<<: *x, <<: *y}": "map", "- a": "list", "a": "text", "null": "",
	} {
		if got, err := Shape([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"a: [b", "a: b\n---\nc: d\n", "a: b\nc: d\na: e\n", "a:\n- {b: 1, b: 1}\n"} {
		if got, err := Shape([]byte(text)); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
}

func TestDecodeRefusesNumbersForText(t *testing.T) {
	var into struct {
		Name string `json:"name"`
		N    int    `json:"n"`
	}
	if err := Decode([]byte("name: 1.10"), &into); err == nil || !strings.Contains(err.Error(), "put it in quotes") {
		t.Errorf("a number for text: %v", err)
	}
	if err := Decode([]byte("nam: x"), &into); err == nil || !strings.Contains(err.Error(), "nam") {
		t.Errorf("an unknown field: %v", err)
	}
	if err := Decode([]byte("name: 2026-01-31\nn: 5"), &into); err != nil || into.Name != "2026-01-31" || into.N != 5 {
		t.Errorf("%+v, %v", into, err)
	}
}
