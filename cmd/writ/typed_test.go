package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"writ/internal/test/testenv"
)

// TestPrintedCommandsWork types the commands of README and manual; see testdata/typed.
func TestPrintedCommandsWork(t *testing.T) {
	testenv.Nightly(t, "TestPrintedCommandsAreTyped")
	for _, tool := range []string{"ssh-keygen", "openssl"} {
		testenv.Need(t, tool)
	}
	runScripts(t, "testdata/typed")
}

// typing defines in bash how a user types commands that do not end by themselves or that must fail.
const typing = `set -e -m
until_ctrl_c() { # starts a command, waits until its output matches a pattern, for ten seconds if that is "", and types Ctrl-C
	local - pattern=$1 said rc=0 waited
	set +x
	shift
	said=$(mktemp)
	"$@" >"$said" 2>&1 &
	for waited in {1..600}; do
		if ! kill -0 $! 2>/dev/null || grep -qE "${pattern:-.}" "$said" || { [ -z "$pattern" ] && [ $waited -ge 100 ]; }; then break; fi
		sleep 0.1
	done
	kill -INT $! 2>/dev/null || true
	wait $! || rc=$?
	cat "$said"
	if [ -n "$pattern" ] && ! grep -qE "$pattern" "$said"; then echo "it never says $pattern"; return 1; fi
	[ $rc -eq 0 ] || [ $rc -eq 130 ]
}
refused() {
	local - rc=0
	set +x
	"$@" || rc=$?
	[ $rc -ne 0 ] || { echo "it is not refused"; return 1; }
}
`

var (
	followers    = regexp.MustCompile(`^(?:\./)?writ .*(?:--follow\b|# .*until Ctrl-C)`)
	startDaemons = regexp.MustCompile(`^((?:[A-Z_]+=\S+ )*)((?:\./)?writ (?:dev|coord|supervisor|runner|boot serve)\b.*)$`)
	mustFail     = regexp.MustCompile(`^(writ .*# refused\b)`)
)

// howTyped returns a printed command in the form for the shell of typing.
func howTyped(command string) string {
	if m := startDaemons.FindStringSubmatch(command); m != nil {
		return m[1] + "until_ctrl_c 'listening|Ctrl-C ends it' " + m[2]
	}
	if followers.MatchString(command) {
		return "until_ctrl_c '' " + command
	}
	return mustFail.ReplaceAllString(command, "refused $1")
}

// typePage implements the command `typed PAGE OLD=NEW…`. It types each shell fence of a page in a separate shell,
// without the commands of the table untyped. It replaces names and addresses of the page by the ones of the test; <FILE
// stands for the content of a file.
func typePage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: typed PAGE OLD=NEW…")
	}
	page, path := args[0], "../../docs/manual/"+args[0]
	if page == "README.md" {
		path = "../../README.md"
	}
	text, err := os.ReadFile(path)
	ts.Check(err)
	var replaced []string
	for _, arg := range args[1:] {
		old, with, given := strings.Cut(arg, "=")
		if !given || !strings.Contains(string(text), old) {
			ts.Fatalf("%s has no %q to replace", page, arg)
		}
		if file, is := strings.CutPrefix(with, "<"); is {
			with = strings.TrimSpace(ts.ReadFile(file))
		}
		replaced = append(replaced, old, with)
	}
	names := strings.NewReplacer(replaced...)
	blocks, _ := printedBlocks(string(text))
	for _, b := range blocks {
		lines := typing
		for _, command := range b.commands {
			if leftOut(page, command) == nil {
				lines += howTyped(names.Replace(command)) + "\n"
			}
		}
		if lines == typing || b.host != "" {
			continue
		}
		file := ts.MkAbs(".typed.sh")
		ts.Check(os.WriteFile(file, []byte(lines), 0o600))
		if err := ts.Exec("bash", "-x", file); err != nil {
			ts.Fatalf("%s:%d: %v", page, b.line, err)
		}
	}
}

// topDirectory implements the command `checkout`: it sets TOP to the directory of this repository, and the variables of
// the Go caches.
func topDirectory(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: checkout")
	}
	top, err := filepath.Abs("../..")
	ts.Check(err)
	ts.Setenv("TOP", top)
	for name, value := range goCaches(ts) {
		ts.Setenv(name, value)
	}
}

func TestCommandsAreTypedAsPrinted(t *testing.T) {
	for command, want := range map[string]string{
		"writ run list": "writ run list",
		"writ logs machine/db --follow   # and more":  "until_ctrl_c '' writ logs machine/db --follow   # and more",
		"./writ dev     # a cluster, until Ctrl-C":    "until_ctrl_c 'listening|Ctrl-C ends it' ./writ dev     # a cluster, until Ctrl-C",
		"A=b writ coord --data d":                     "A=b until_ctrl_c 'listening|Ctrl-C ends it' writ coord --data d",
		"writ submit clean.tengo  # refused, and why": "refused writ submit clean.tengo  # refused, and why",
		"writ coordinator list":                       "writ coordinator list",
	} {
		if got := howTyped(command); got != want {
			t.Errorf("%q is typed as\n%q, want\n%q", command, got, want)
		}
	}
}
