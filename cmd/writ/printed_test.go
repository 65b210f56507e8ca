package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// printedBlock is a fence of a page with shell commands.
type printedBlock struct {
	line     int
	host     string // host of the page on which the commands are typed, "" for any
	commands []string
}

var (
	shellFence = regexp.MustCompile("^```sh( .*)?$")
	hereText   = regexp.MustCompile(`<<(\w+)$`)
	writLine   = regexp.MustCompile(`^\s*(?:\$ )?(?:\./)?writ [a-z]`)
)

// printedBlocks returns the shell fences of a page. strays lists the writ commands at the start of a line of other
// code.
func printedBlocks(text string) (blocks []printedBlock, strays []string) {
	open, fence := (*printedBlock)(nil), false
	here := ""
	for number, line := range strings.Split(text, "\n") {
		switch m := shellFence.FindStringSubmatch(line); {
		case fence && line == "```":
			if open != nil {
				blocks = append(blocks, *open)
			}
			open, fence = nil, false
		case !fence && m != nil:
			open, fence = &printedBlock{line: number + 1, host: strings.TrimSpace(m[1])}, true
		case !fence && strings.HasPrefix(line, "```"):
			fence = true
		case open != nil && here != "":
			open.commands[len(open.commands)-1] += "\n" + line
			if line == here {
				here = ""
			}
		case open != nil && strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#"):
			open.commands = append(open.commands, line)
			if m := hereText.FindStringSubmatch(line); m != nil {
				here = m[1]
			}
		case (fence || strings.HasPrefix(line, "    ")) && open == nil && writLine.MatchString(line):
			strays = append(strays, strings.TrimSpace(line))
		}
	}
	return blocks, strays
}

// untypedCommand is a printed command, or a prefix of several, that `typed PAGE` omits.
type untypedCommand struct {
	page, begin string
	reason      string // why no test can type it as printed, or which test types it
}

// leftOut returns the table row for a command of a page, nil if it must be typed. A command with … is an excerpt.
func leftOut(page, command string) *untypedCommand {
	for i, row := range untyped {
		if row.page == page && strings.HasPrefix(command, row.begin) {
			return &untyped[i]
		}
	}
	if strings.Contains(strings.SplitN(command, "#", 2)[0], "…") {
		return &untypedCommand{reason: "it is an excerpt; TestDocumentedCommandsAreKnown parses it"}
	}
	return nil
}

// printedPages returns the pages whose commands are typed, by name.
func printedPages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/manual/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]string)
	for _, path := range append(paths, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		if path == "../../docs/manual/README.md" {
			name = "manual/README.md"
		}
		pages[name] = string(text)
	}
	return pages
}

// typedPages returns the pages that the scripts of TestPrintedCommandsWork type.
func typedPages(t *testing.T) (pages []string) {
	t.Helper()
	scripts, err := filepath.Glob("testdata/typed/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^typed (\S+)`).FindAllStringSubmatch(string(text), -1) {
			pages = append(pages, m[1])
		}
	}
	return pages
}

// Each command printed in the README and the manual is typed by TestPrintedCommandsWork, or has a row in the table
// untyped.
//
// Promise: Plans, scripts and manuals: The commands of README and manual work.
// How: The nightly tier types each of them, except for those in one table with reasons.
// Also: TestDocumentedCommandsAreKnown, TestPrintedCommandsWork.
func TestPrintedCommandsAreTyped(t *testing.T) {
	typed, used := typedPages(t), make(map[untypedCommand]bool)
	for page, text := range printedPages(t) {
		blocks, strays := printedBlocks(text)
		for _, stray := range strays {
			if row := leftOut(page, stray); row != nil {
				used[*row] = true
			} else if len(commandsIn(stray, true)) > 0 {
				t.Errorf("%s: put this command into a fence ```sh: %s", page, stray)
			}
		}
		for _, b := range blocks {
			if b.host != "" && page == "sites.md" {
				continue // TestHostsSpeakNothingButTLS types the blocks that name a host
			}
			for _, command := range b.commands {
				if row := leftOut(page, command); row != nil {
					used[*row] = true
				} else if !slices.Contains(typed, page) {
					t.Errorf("%s:%d: no test types %q: write testdata/typed/%s.txtar, or a row in the table untyped", page, b.line, command, strings.TrimSuffix(page, ".md"))
				}
			}
		}
	}
	tests := testsHere(t)
	for _, row := range untyped {
		if !used[row] {
			t.Errorf("%s prints no command %q: remove its row from the table untyped", row.page, row.begin)
		}
		for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(row.reason, -1) {
			if !strings.Contains(tests, "\nfunc "+name+"(") {
				t.Errorf("the row of %s, %q names the test %s, which does not exist", row.page, row.begin, name)
			}
		}
	}
}

// testsHere returns the text of all tests of this package.
func testsHere(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

func TestCommandsOfPagesAreFound(t *testing.T) {
	blocks, strays := printedBlocks("a\n\n```sh\nwrit a # b\n\ncat > x <<END\n# in\nEND\n```\n\n    writ run list\n```text\n$ writ test\nwrit [ 1]\n```\n```sh n1 keeps\n# only\nwrit c\n```\n")
	want := []printedBlock{{3, "", []string{"writ a # b", "cat > x <<END\n# in\nEND"}}, {16, "n1 keeps", []string{"writ c"}}}
	if diff := cmp.Diff(want, blocks, cmp.AllowUnexported(printedBlock{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"writ run list", "$ writ test"}, strays); diff != "" {
		t.Error(diff)
	}
}
