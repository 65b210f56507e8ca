package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// findRecord is the command of the runbook that finds the record of a resource on its node.
var findRecord = regexp.MustCompile("`(grep -rl [^`]*NAME[^`]* DATA)`")

// TestRunbookEndsUnlistedResource restores a supervisor from a backup that is older than a volume, and follows the
// runbook on the node that still has the volume. Then a script can create the name again.
func TestRunbookEndsUnlistedResource(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestFindingsOfANodeReachPeople and TestLostStoresComeBackFromTheirBackups")
	page, err := os.ReadFile("../../docs/manual/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "**A node has a resource that its datacenter does not list.**")
	find := findRecord.FindStringSubmatch(section)
	if find == nil {
		t.Fatal("the runbook does not name the command that finds a record")
	}
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0", Node: []string{"--drivers", "auto"}})
	s.Script("make.tengo", "import(\"volume\").create(\"kept\", {size_gib: 1})\n")
	s.Script("again.tengo", "volume := import(\"volume\")\nvolume.create(\"kept\", {size_gib: 1}, {retries: 0})\n")
	s.Writ("backup", "--data", "dc1", "dc1.tar")
	s.Writ("submit", "make.tengo")
	s.Kill("dc1")
	if err := os.Rename(filepath.Join(s.Dir, "dc1"), filepath.Join(s.Dir, "dc1-lost")); err != nil {
		t.Fatal(err)
	}
	s.Writ("restore", "--data", "dc1", "dc1.tar")
	s.Restart("dc1")
	if _, said, code := s.Try("submit", "again.tengo"); code == 0 || !strings.Contains(said, string(writ.CodeResourceConflict)) {
		t.Fatalf("exit %d:\n%s", code, said)
	}

	// Steps 1 and 2: move the record away while the runner is stopped.
	command := strings.NewReplacer("NAME", "kept", "DATA", "dc1-n1").Replace(find[1])
	record := strings.TrimSpace(typed(t, s.Dir, command))
	if record == "" || strings.Contains(record, "\n") {
		t.Fatalf("%s finds %q", command, record)
	}
	s.Kill("dc1-n1")
	if err := os.Rename(filepath.Join(s.Dir, record), filepath.Join(s.Dir, "kept.json")); err != nil {
		t.Fatal(err)
	}
	s.Restart("dc1-n1")

	// Step 3: the remains are listed with the commands that remove them.
	remedies := func() (lines []string) {
		var list struct {
			Items []writ.Orphan `json:"items"`
		}
		if err := json.Unmarshal([]byte(s.Writ("resource", "list", "--orphans", "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			lines = append(lines, o.Remedy)
		}
		return lines
	}
	s.Until("the remains are listed", func(context.Context) bool { return len(remedies()) > 0 })
	for _, remedy := range remedies() {
		typed(t, s.Dir, remedy)
	}
	s.Until("nothing is left", func(context.Context) bool { return len(remedies()) == 0 })
	s.Writ("submit", "again.tengo")
	s.Says(0, []string{"it is ready"}, "resource", "show", "volume/kept")
}

// typed runs a command from a page in a shell and returns its output.
func typed(t *testing.T, dir, command string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, said)
	}
	return string(said)
}
