package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"writ/cmd/writ/internal/cli/nodes"
	"writ/cmd/writ/internal/terminal"
	"writ/cmd/writ/internal/test/testcluster"
)

// Each list command runs without items. It shows users the command that creates the first item, and gives programs an
// empty list without a sentence.
//
// Promise: Commands and hosts: An empty list prints a notice with the command that creates the first item; programs
// get an empty list without the notice.
// How: One function prints lists; the tests walk the commands and their source.
// Also: TestEveryListIsPrintedByOneFunction.
func TestEveryListSaysThatItIsEmpty(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	boots := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"image": "", "bytes": 0, "began": "2026-11-01T12:00:00Z", "machines": []}`)
	}))
	t.Cleanup(boots.Close)
	s.Script("none.yaml", "contexts: []\n")
	// Modules of the program, and the results of `writ init`.
	full := []string{"library list", "user list", "project list", "coordinator list"}
	besides := map[string][]string{"boot list": {"--boot-server", boots.URL}, "context list": {"--config", "none.yaml"}}
	lists := []string{"pki show", "usage", "usage --by project", "usage --nodes", "resource list --orphans"}
	for _, c := range commandTree() {
		if c.Name() == "list" {
			lists = append(lists, strings.TrimPrefix(c.CommandPath(), "writ "))
		}
	}
	commands := regexp.MustCompile("`writ ([a-z ]+)")
	for _, list := range lists {
		ask := func(more ...string) (out, said string) {
			t.Helper()
			out, said, code := s.Try(slices.Concat(strings.Fields(list), besides[list], more)...)
			if code != 0 {
				t.Errorf("%s %v: exit %d\n%s", list, more, code, said)
			}
			return out, said
		}
		out, said := ask()
		if slices.Contains(full, list) {
			if strings.Count(out, "\n") < 2 {
				t.Errorf("%s is empty:\n%s", list, out)
			}
			continue
		}
		named := commands.FindStringSubmatch(said)
		if strings.Count(out, "\n") != 1 || named == nil {
			t.Errorf("%s prints\n%s%s", list, out, said)
			continue
		}
		if c, rest, err := newRoot(newEnv(terminal.New(os.Stdin, nil, nil, nil))).Find(strings.Fields(named[1])); err != nil || len(rest) > 0 || c.HasSubCommands() && c.Name() != "hold" {
			t.Errorf("%s names the command %q", list, named[0])
		}
		out, said = ask("-o", "json")
		if !json.Valid([]byte(out)) || strings.Contains(out, "null") || !strings.Contains(out, "[]") || said != "" {
			t.Errorf("%s -o json is not an empty list: %s%s", list, out, said)
		}
	}
	for _, silent := range []string{"--output=name", "--output=csv", "--quiet"} {
		if _, said, code := s.Try("run", "list", silent); said != "" || code != 0 {
			t.Errorf("run list %s: exit %d, %q", silent, code, said)
		}
	}
	s.Says(0, []string{"nothing matches --project and --state"}, "run", "list", "--state", "failed", "--project", "default")
}

// This test covers lists that are not printed by a command named "list", and that the test above does not empty: the
// lists of a machine, and any new one.
func TestEveryListIsPrintedByOneFunction(t *testing.T) {
	for _, list := range []terminal.View{nodes.DiskTable(nil), nodes.NicTable(nil)} {
		var out, said bytes.Buffer
		env := newEnv(&terminal.Terminal{Notices: terminal.Notices{Err: &said}, Out: &out, Format: terminal.Table})
		if err := env.PrintList(list, "there is none"); err != nil || strings.Count(out.String(), "\n") != 1 || said.String() != "there is none\n" {
			t.Errorf("%q, %q, %v", out.String(), said.String(), err)
		}
		out.Reset()
		said.Reset()
		env.Format = terminal.JSON
		if err := env.PrintList(list, "there is none"); err != nil || out.String() != "[]\n" || said.Len() > 0 {
			t.Errorf("JSON: %q, %q, %v", out.String(), said.String(), err)
		}
	}
	// Lists that are never empty.
	never := map[string]int{"doctor.go": 1, "library.go": 1, "user.go": 1, "run_many.go": 1, "support.go": 1}
	sources, err := filepath.Glob("internal/cli/*/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	direct := regexp.MustCompile(`\benv\.Print\((terminal\.List|\w*Table)\(`)
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(direct.FindAll(text, -1)); n != never[filepath.Base(name)] {
			t.Errorf("%s prints %d lists without PrintList", name, n)
		}
	}
}
