package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
)

func TestMistypedWordsGetSuggestions(t *testing.T) {
	for line, want := range map[string]string{
		"run list --stat open":                  "did you mean --state?",
		"run list --servr x":                    "did you mean --server?",
		"plan --ofline x":                       "did you mean --offline?",
		"run list --outptu json":                "did you mean --output?",
		"run list -o jsn":                       `did you mean "json"?`,
		"run list --state faild":                `did you mean "failed"?`,
		"run list --state open,runnin":          `did you mean "running"?`,
		"node list --admission aproved":         `did you mean "approved"?`,
		"node logs n1 --level wran":             `did you mean "warn"?`,
		"resource list --kind machin":           `did you mean "machine"?`,
		"usage --by projct":                     `did you mean "project"?`,
		"user add bob --key k --role deploer":   `did you mean "deployer"?`,
		"token create --role boot-servr":        `did you mean "boot-server"?`,
		"hold --dc d --operation machine.creat": `did you mean "machine.create"?`,
		"coord --log-format jsn":                `did you mean "json"?`,
		"coord --log-level wran":                `did you mean "warn"?`,
		"runner --drivers simulatd":             `did you mean "simulated"?`,
		"explain machine.creat":                 `machine.create`,
		"rnu list":                              "did you mean `writ run`?",
		"run lst":                               "did you mean `writ run list`?",
	} {
		text, code := usage(t, strings.Fields(line)...)
		if code != writ.ExitUsage && !strings.HasPrefix(line, "explain") || !strings.Contains(text, want) {
			t.Errorf("writ %s: exit %d, want %q:\n%s", line, code, want, text)
		}
	}
}

// usage runs a command line that needs no cluster and returns its output.
func usage(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	code = run(args, os.Stdin, out, out, []string{"HOME=" + t.TempDir()})
	return read(t, out.Name()), code
}
