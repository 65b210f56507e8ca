package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"writ/cmd/writ/internal/terminal"
)

// notCommands holds texts of the pages that look like commands, with the reason why they are not.
var notCommands = map[string]string{
	"writ node, image 0a1b2c3d4e5f6071, kernel 6.1.0-56-amd64": "a line of the console of a node",
}

// Each command of writ in the pages for people has a known name and known flags.
func TestDocumentedCommandsAreKnown(t *testing.T) {
	pages, err := filepath.Glob("../../docs/manual/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range append(pages, "../../README.md", "../../docs/tutorial.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		fenced := false
		for number, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			for _, words := range commandsIn(line, fenced) {
				seen++
				if wrong := unknownIn(words); wrong != "" {
					t.Errorf("%s:%d: writ %s: %s", page, number+1, strings.Join(words, " "), wrong)
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d commands are found", seen)
	}
}

func TestUnknownCommandsAreFoundInPages(t *testing.T) {
	for line, want := range map[string]string{
		"`writ demo --drivers host` makes all of them real":            "unknown flag: --drivers",
		"    writ node shwo n1":                                        "unknown command shwo",
		"    writ frob":                                                "unknown command frob",
		"    run=$(writ submit notes.tengo --dc fra --detached)":       "unknown flag: --detached",
		"    ./writ dev    # --until Ctrl-C":                           "",
		"    writ run list --stuck 5m  open --runs":                    "",
		"    writ payload a.tengo > b; WRIT_CONFIG=c writ run list -Z": "unknown shorthand flag: 'Z'",
		"writ runs virtual machines":                                   "",
	} {
		got := ""
		for _, words := range commandsIn(line, false) {
			got += unknownIn(words)
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("in %q: %q, want %q", line, got, want)
		}
	}
}

// printed matches a command of writ where a command may start: at the start of a line of code, within such a line, or
// in code within a sentence.
var printed = regexp.MustCompile("(?:^    |`|\\$\\(|[;|&] |[A-Z_]+=\\S+ )(?:\\./writ|go run \\./cmd/writ|writ) ([a-z][^`]*)")

// commandsIn returns the arguments of the writ commands in a line. Fenced and indented lines are code.
func commandsIn(line string, fenced bool) (all [][]string) {
	if fenced {
		line = "    " + strings.TrimLeft(line, " ")
	}
	for {
		at := printed.FindStringSubmatchIndex(line)
		if at == nil {
			return all
		}
		if command := line[at[2]:at[3]]; notCommands["writ "+command] == "" {
			all = append(all, argumentsIn(command))
		}
		line = line[at[2]:] // another command may follow on the line
	}
}

// argumentsIn splits the rest of a command into arguments, up to a comment, a redirection or the next command. Two
// spaces also end it, because an explanation of the command follows.
func argumentsIn(text string) (words []string) {
	var word strings.Builder
	quote := rune(0)
	end := func() {
		if word.Len() > 0 && word.String() != "…" && word.String() != "\\" {
			words = append(words, word.String())
		}
		word.Reset()
	}
	space := false
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && strings.ContainsRune("#|><;&)", r) && (space || r == ')' || r == ';'), quote == 0 && r == ' ' && space:
			end()
			return words
		case quote == 0 && r == ' ':
			end()
		default:
			word.WriteRune(r)
		}
		space = r == ' '
	}
	end()
	return words
}

// unknownIn returns the part of a command that is unknown to the program, or "".
func unknownIn(words []string) string {
	env := newEnv(terminal.New(os.Stdin, nil, nil, nil))
	root := newRoot(env)
	root.AddCommand(manCommand(env))
	root.InitDefaultHelpCmd()
	c, rest, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	if c.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "unknown command " + rest[0]
	}
	if err := c.ParseFlags(rest); err != nil && strings.Contains(err.Error(), "unknown") {
		return err.Error()
	}
	return ""
}
