package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/cli"
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
		"apply web.tengo":                       "`writ submit FILE` signs a script",
		"run web.tengo":                         "`writ submit web.tengo` signs a script",
		"volumes":                               "`writ resource list --kind volume`",
		"secret get db":                         "no command prints the value",
		"node describe n1":                      "did you mean `writ node show`?",
		"user delete bob":                       "did you mean `writ user remove`?",
		"token delete t":                        "did you mean `writ token revoke`?",
		"project new shop":                      "did you mean `writ project add`?",
		"submit":                                "for example `writ submit web.tengo -p",
		"user add bob bob.pub":                  "for example `writ user add ",
		"hold web":                              "for example `writ hold --dc dc1 ",
		"hold --dc d --operation foo":           "volume.copy, volume.send, … (",
	} {
		text, code := usage(t, strings.Fields(line)...)
		if code != writ.ExitUsage && !strings.HasPrefix(line, "explain") || !strings.Contains(text, want) {
			t.Errorf("writ %s: exit %d, want %q:\n%s", line, code, want, text)
		}
	}
}

// TestEveryHintNamesCommandsOfThisProgram looks up the commands in the hints for words of other tools.
func TestEveryHintNamesCommandsOfThisProgram(t *testing.T) {
	known := make(map[string]bool)
	for _, c := range allCommands() {
		known[c.CommandPath()] = true
	}
	command := regexp.MustCompile("`(writ(?: [a-z]+)+)")
	for line, hint := range cli.Habits {
		if known[line] {
			t.Errorf("%s is a command", line)
		}
		for _, found := range command.FindAllStringSubmatch(hint, -1) {
			if words := strings.Fields(found[1]); !known[found[1]] && !known[strings.Join(words[:min(2, len(words))], " ")] {
				t.Errorf("%s: there is no command %s", line, found[1])
			}
		}
	}
}

// TestSecretInArgumentIsNotRepeated gives the value of a secret as an argument.
func TestSecretInArgumentIsNotRepeated(t *testing.T) {
	text, code := usage(t, "secret", "set", "db=hunter2")
	if code != writ.ExitUsage || strings.Contains(text, "hunter2") || !strings.Contains(text, "writ secret set db --file FILE") {
		t.Errorf("exit %d:\n%s", code, text)
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
