package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ/cmd/writ/internal/help"
	"writ/cmd/writ/internal/terminal"
)

var update = flag.Bool("update", false, "write docs/cli.md")

//go:generate go test . -run ^TestTheReferenceOfCommandsIsCurrent$ -update

const referencePage = "../../docs/cli.md"

// commandTree returns every visible command, each after its parent.
func commandTree() (all []*cobra.Command) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		all = append(all, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(newEnv(terminal.New(os.Stdin, nil, nil, nil))))
	return all
}

// reference returns the page with the help of every command. The home directory is ~.
func reference() string {
	page := new(strings.Builder)
	page.WriteString(`# Commands

This page is the reference of commands and flags. It is generated from the output of ` + "`writ COMMAND --help`" + `. The [glossary](architecture.md#words) defines the terms.

All commands have ` + "`--output`, `--quiet` and `--help`. `--output` of `writ sign` names a file" + `. Commands that connect to a cluster also have the [flags of clients](#flags-of-clients). A command rejects flags that it does not use. Commands about nodes and the roster have no ` + "`--project`" + `.
`)
	for _, c := range commandTree() {
		fmt.Fprintf(page, "\n## %s\n\n%s.\n", c.CommandPath(), c.Short)
		if c.Long != "" && c.Long != c.Short {
			fmt.Fprintf(page, "\n%s\n", c.Long)
		}
		if !c.HasSubCommands() {
			fmt.Fprintf(page, "\n```\n%s\n```\n", c.UseLine())
		}
		if c.Example != "" {
			fmt.Fprintf(page, "\nExamples:\n\n```sh\n%s\n```\n", dedent(c.Example))
		}
		writeFlags(page, help.Flags(c, help.Own))
	}
	root := commandTree()[0]
	page.WriteString(formatsOfData)
	page.WriteString("\n## Flags of every command\n")
	writeFlags(page, help.Flags(root, help.Every))
	page.WriteString("\n## Flags of clients\n")
	writeFlags(page, help.ClientFlags(root))
	return homeless().Replace(page.String())
}

const formatsOfData = `
## Formats of data

` + "`--output`" + ` (` + "`-o`" + `) selects the format of a command's data. In scripts use json, yaml, csv or name: their fields, columns and ids do not depend on the terminal.

| format | for | contents |
| --- | --- | --- |
| table | people | In a terminal, a list fits the width. Ids are shortened to a unique prefix, which commands accept. Long cells end with "…", and the least important columns are omitted. In a pipe, the width is unlimited |
| wide | people | all columns, at any width, with full ids |
| json, yaml | programs | complete values with full ids, in the format of the HTTP API |
| csv | programs | a list with a header line and all columns of wide, with full ids and exact values |
| name | shells | one full name or id per line |
| markdown | forges | a plan, for a comment of a pull or merge request |
`

func writeFlags(page *strings.Builder, flags []*pflag.Flag) {
	for i, f := range flags {
		if i == 0 {
			page.WriteString("\n| flag | meaning |\n| --- | --- |\n")
		}
		usage := strings.ReplaceAll(f.Usage, "|", `\|`)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" && f.DefValue != "0s" {
			usage += ". Default: " + f.DefValue
		}
		fmt.Fprintf(page, "| `%s` | %s |\n", help.Names(f), usage)
	}
}

// dedent removes the indentation of examples in a terminal, two spaces.
func dedent(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

func TestTheReferenceOfCommandsIsCurrent(t *testing.T) {
	want := reference()
	if *update {
		if err := os.WriteFile(referencePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(referencePage)
	if err != nil || string(have) != want {
		t.Errorf("docs/cli.md differs from the commands (%v): go generate ./cmd/writ", err)
	}
}

// Every command with an action has an example. Each command line in an example names an existing command with existing
// flags.
func TestEveryCommandHasAnExampleThatWorks(t *testing.T) {
	for _, c := range commandTree() {
		if c.HasSubCommands() && c.HasParent() || c.CommandPath() == "writ version" {
			continue
		}
		lines := 0
		for line := range strings.SplitSeq(dedent(c.Example), "\n") {
			for _, args := range writCommands(line) {
				found, rest, err := c.Root().Find(args)
				if err == nil {
					found.InitDefaultHelpFlag()
					err = found.ParseFlags(rest)
				}
				if err == nil {
					err = found.ValidateArgs(found.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: the example %q: %v", c.CommandPath(), line, err)
				}
				if found == c || !c.HasParent() {
					lines++
				}
			}
		}
		if lines == 0 {
			t.Errorf("%s has no example", c.CommandPath())
		}
	}
}

// writCommands returns the arguments of each writ in a shell line. It parses only as much shell syntax as the examples
// need.
func writCommands(line string) (all [][]string) {
	if strings.HasPrefix(line, "#") {
		return nil
	}
	line = strings.NewReplacer("$(", "RESULT | ", ")", " ").Replace(line)
	for part := range strings.SplitSeq(line, "|") {
		part, _, _ = strings.Cut(part, " > ")
		part, _, _ = strings.Cut(part, " < ")
		words := shellWords(part)
		for len(words) > 0 && strings.Contains(words[0], "=") {
			words = words[1:]
		}
		if len(words) > 0 && words[0] == "writ" {
			all = append(all, words[1:])
		}
	}
	return all
}

// shellWords splits a line at spaces outside of quotes.
func shellWords(line string) (words []string) {
	var word strings.Builder
	quote, in := rune(0), false
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, in = r, true
		case quote == 0 && r == ' ':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	return words
}

func TestExamplesAreReadAsAShellReadsThem(t *testing.T) {
	for line, want := range map[string]string{
		"writ fmt - < web.tengo": `[["fmt" "-"]]`,
		"# writ nothing":         `[]`,
		`WRIT_CONFIG=./x writ submit "a b" --project '*'`:  `[["submit" "a b" "--project" "*"]]`,
		"writ submit w --plan $(writ plan w -o name)":      `[["submit" "w" "--plan" "RESULT"] ["plan" "w" "-o" "name"]]`,
		"openssl rand 24 | writ secret set x --all-dcs":    `[["secret" "set" "x" "--all-dcs"]]`,
		"curl --data-binary @web.writ http://127.0.0.1/v1": `[]`,
	} {
		if got := fmt.Sprintf("%q", writCommands(line)); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
