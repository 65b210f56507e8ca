package main

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// Promise: Operation: `writ status` shows the last known state of a deployment while its datacenter is away, with its
// age and exit code 8.
// How: The coordinator records when it last heard of a datacenter; after a restart, that is the last event.
func TestStatusHasTheAgeOfItsFacts(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestListMarksOutdatedStates, and TestVerdictOfStatus of package services")
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Script("web.tengo", "machine := import(\"machine\")\nmachine.create(\"web\", {cpus: 1, memory_mib: 64})\n")
	s.Writ("submit", "web.tengo", "--deployment", "web")
	s.Says(0, []string{"all is well, 1 resource"}, "status", "web")

	s.Kill("dc1")
	old := []string{
		"web of project default in dc1: its state is not current", "  as of: " + time.Now().Format("2006-01-02 "),
		"machine  web   was running", "datacenter dc1 is away since ", "  next: writ dc list",
	}
	s.Says(writ.ExitUnreachable, old, "status", "web")
	s.Kill("coord")
	s.Restart("coord")
	s.Says(writ.ExitUnreachable, old, "status", "web")
	if out, _, _ := s.Try("status", "web", "-o", "json"); !strings.Contains(out, `"verdict": "unknown"`) || !strings.Contains(out, `"as_of": "`) {
		t.Errorf("JSON output:\n%s", out)
	}
	s.Restart("dc1")
	s.Says(0, []string{"all is well, 1 resource"}, "status", "web")
}

// A project's deployer gets the age of a state, but no name of a node.
func TestStatusCountsResourcesOfSilentNode(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestListMarksOutdatedStates, and TestUnheardNodeIsOneProblem of package services")
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Writ("dc", "set", "dc1", "--silent-after", "3s", "--lost-after", "15s")
	s.Script("web.tengo", "machine := import(\"machine\")\nmachine.create(\"a\", {cpus: 1, memory_mib: 64})\nmachine.create(\"b\", {cpus: 1, memory_mib: 64})\n")
	s.Writ("submit", "web.tengo", "--deployment", "web")
	s.Kill("dc1-n1")
	s.Says(writ.ExitUnreachable, []string{"node dc1-n1 is silent since ", "so the state of 2 resources is outdated", "next: writ node show dc1-n1 --dc dc1"}, "status", "web")
	s.Says(writ.ExitUnreachable, []string{"node dc1-n1 is lost since ", "next: writ node lost dc1-n1 --dc dc1"}, "status", "web")
	s.Restart("dc1-n1")
	s.Says(0, []string{"all is well"}, "status", "web")
}
