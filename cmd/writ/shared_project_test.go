package main

import (
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// TestNoCommandIgnoresTheProject gives each command of clients a project that the cluster does not have.
func TestNoCommandIgnoresTheProject(t *testing.T) {
	testenv.Nightly(t, "TestNoCommandIgnoresAClientFlag")
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Speed: "0"})
	writeScriptFiles(t, s.Dir)
	const wrong = "no-such-project"
	rejected := 0
	for path, line := range clientLines("project") {
		switch path {
		case "writ support bundle": // it records the failures of its commands
			continue
		case "writ context add", "writ context export", "writ context import": // they store the name for other commands
			continue
		}
		out, said, code := s.Try(withFlag(line, "project", wrong)...)
		if strings.Contains(said, "does not use --project") {
			rejected++
		}
		if code == 0 || !strings.Contains(said, wrong) && !strings.Contains(said, "does not use --project") {
			t.Errorf("%v with an unknown project: exit %d\n%s%s", line, code, out, said)
		}
	}
	if rejected < 30 {
		t.Errorf("%d commands reject --project", rejected)
	}
	for _, line := range [][]string{
		{"boot", "list"}, {"usage", "--nodes"}, {"resource", "list", "--orphans"}, {"run", "show", strings.Repeat("a", 26)},
	} {
		if _, said, code := s.Try(withFlag(line, "project", "default")...); code != writ.ExitUsage || !strings.Contains(said, "--project") {
			t.Errorf("%v --project default: exit %d\n%s", line, code, said)
		}
	}
}
