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
		"run list --stuck":                      "for example `writ run list --stuck 5m` (",
		"run list --deployment":                 "--deployment: only runs of this deployment (",
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
		"help rnu":                              "did you mean `writ run`?",
		"help run lst":                          "did you mean `writ run list`?",
		"help submit web.tengo":                 "for example `writ submit web.tengo -p",
		"completion bsh":                        "did you mean `writ completion bash`?",
		"completion bash zsh":                   `unexpected argument "zsh"`,
		"completion":                            "one of bash, ",
		"run":                                   "one of cancel, explain, list, ",
		"run help":                              "`writ run --help` lists the commands",
		"efi":                                   "one of build, ",
		"node n1 show":                          "did you mean `writ node show n1`?",
		"up":                                    "`writ submit FILE --deployment NAME`",
		"job run shop.tengo":                    "`writ submit FILE --deployment NAME`",
		"alloc logs web":                        "`writ logs container/NAME`",
		"show run":                              "did you mean `writ run show`?",
		"list nodes":                            "did you mean `writ node list`?",
		"resource show volume web":              "did you mean `writ resource show volume/web`?",
		"explain volume create":                 "did you mean `writ explain volume.create`?",
		"logs " + strings.Repeat("a", 26):       "`writ run logs " + strings.Repeat("a", 26) + "` prints",
		"run list --json":                       "did you mean -o json?",
		"run list --namespace shop":             "did you mean --project NAME?",
		"submit web.tengo --p=3":                "did you mean -p?",
		"submit web.tengo --count 3":            "-p count=VALUE sets a parameter",
		"submit web.tengo --dry-run":            "`writ plan FILE` previews",
		"run list -output json":                 "did you mean --output?",
		"run list -limit 5":                     "did you mean --limit?",
		"submit web.tengo -project default":     "did you mean --project?",
		"submit web.tengo —detach":              "typographic dash: type --detach",
		"submit web.tengo –p count=3":           "typographic dash: type -p",
		"–help":                                 "typographic dash: type --help",
		"run list --since 2026–03–01":           "argument 4 has the typographic dash –: type -",
		"run list --state=“open”":               "argument 3 has the typographic quote “: type a plain one",
		"run list\u200b":                        "argument 2 has the invisible character U+200B: type it again",
	} {
		text, code := usage(t, strings.Fields(line)...)
		if code != writ.ExitUsage && !strings.HasPrefix(line, "explain") || !strings.Contains(text, want) {
			t.Errorf("writ %s: exit %d, want %q:\n%s", line, code, want, text)
		}
	}
}

func TestOddArgumentsGetHints(t *testing.T) {
	for want, args := range map[string][]string{
		"argument 3 begins or ends with a space": {"run", "show", "abcd "},
		"argument 1 has the invisible character": {"run\u00a0list"},
		"COMMAND is empty":                       {""},
		"did you mean abcd? Ids have":            {"run", "show", "ABCD"},
	} {
		if text, code := usage(t, args...); code != writ.ExitUsage || !strings.Contains(text, want) {
			t.Errorf("%q: exit %d, want %q:\n%s", args, code, want, text)
		}
	}
	for _, args := range [][]string{{"version", "--", "—x"}, {"hold", "web", "--reason", "the – disks “fail” soon"}} {
		if text, _ := usage(t, args...); strings.Contains(text, "typographic") {
			t.Errorf("%q:\n%s", args, text)
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
				t.Errorf("%s: unknown command %s", line, found[1])
			}
		}
	}
}

// TestSecretInArgumentIsNotRepeated gives the value of a secret as an argument.
func TestSecretInArgumentIsNotRepeated(t *testing.T) {
	for _, line := range []string{
		"secret set db=hunter2", "secret set db hunter2", "secret set db “hunter2”", "secret set DB_PASSWORD=hunter2",
		"secret set DB_PASSWORD hunter2", "secret set hunter2! db",
	} {
		text, code := usage(t, strings.Fields(line)...)
		if code != writ.ExitUsage || strings.Contains(text, "hunter2") {
			t.Errorf("%s: exit %d:\n%s", line, code, text)
		}
	}
	for _, line := range []string{"secret set db=hunter2", "secret set db hunter2"} {
		if text, _ := usage(t, strings.Fields(line)...); !strings.Contains(text, "writ secret set db --file FILE") {
			t.Errorf("%s:\n%s", line, text)
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
