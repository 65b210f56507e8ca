package terminal

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/testenv"
)

// ambiguous contains texts that a YAML reader may misinterpret: special values of YAML 1.1 and syntax characters.
var ambiguous = []string{
	"", " ", "yes", "NO", "off", "y", "~", "null", "TRUE", "0755", "0o17", "0x1F", "0b101", "1_000", "1:30", "190:20:30", "2026-01-31", "2026-01-31T00:00:00Z",
	"1e3", "1.", "+1", "-0", ".inf", "-.INF", ".nan", "12345678901234567890123", "=", "<<", "!a", "&a", "*a", "- a", "? a", ": a", "a: b", "a #b", "#a", "|", ">",
	"@a", "`a", "%a", "{a", "[a", "a,b", "'a", "\"a", "\"=", "a ", "a\nb", "a\n", "\n", "\n\n", "\na", " \na", "\n a", "a\n\n", "\r", "\r\n", "\t", "\ta", "---", "...",
	"--- a", "a:", "-", "?", ":", "!!str a", "\\", "a\\nb", "\u0085", "\u2028", "\ufeff", "\u00a0", "\U0001f600", "\x01", "\\x010000003d\\x01",
}

// mixed returns a text of pieces with a meaning in YAML.
func mixed(random *rand.Rand) string {
	pieces := []string{" ", "\n", "\t", "\r", "a", "b", "-", ":", "#", "'", "\"", "\\", "=", "<<", "|", ">", "?", "{", "]", ",", "0", "1", "_", ".", "\u2028", "\x01", "ä", "\x7f"}
	var b strings.Builder
	for range 1 + random.IntN(6) {
		b.WriteString(pieces[random.IntN(len(pieces))])
	}
	return b.String()
}

func TestPyYAMLReadsEachTextUnchanged(t *testing.T) {
	texts, random := ambiguous, rand.New(rand.NewPCG(1, 2))
	for range 500 {
		texts = append(texts, mixed(random))
	}
	var want []any
	var documents bytes.Buffer
	for _, text := range texts {
		value := map[string]any{text: text, "list": []any{text, map[string]any{"x": text, text: []any{}}}}
		document, err := YAMLText(value)
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(string(document))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, value)
		documents.Write(append(line, '\n'))
	}
	const read = `
import json, sys, yaml
for line in sys.stdin:
	text = json.loads(line)
	try:
		print(json.dumps({"value": yaml.safe_load(text)}))
	except Exception as e:
		print(json.dumps({"error": str(e)}))
`
	python := exec.Command(testenv.Need(t, "python3"), "-c", read)
	python.Env = append(python.Environ(), "PYTHONPATH="+filepath.Dir(filepath.Dir(testenv.Unpacked(t, "usr/lib/python3/dist-packages/yaml/__init__.py"))))
	python.Stdin = &documents
	answers, err := python.Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(answers), "\n"), "\n") {
		var got struct {
			Value any
			Error string
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || !cmp.Equal(want[i], got.Value) {
			document, _ := YAMLText(want[i])
			t.Errorf("%q is read as %q %s, %v:\n%s", texts[i], got.Value, got.Error, err, document)
		}
	}
}
