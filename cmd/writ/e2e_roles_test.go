package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/test/testenv"
)

// TestEveryCommandThatSignsWarnsOfARoleThatEnds checks that each command warns once, for any result of its statement.
// No statement is delivered, so each command finds the same nodes and runs. The same applies to a roster past half of
// its validity.
func TestEveryCommandThatSignsWarnsOfARoleThatEnds(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "east", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Script("fails.tengo", "import(\"run\").fail(\"enough\")\n")
	s.Script("value", "a value")
	r := &redirected{Cluster: s, runs: map[string]writ.RunID{"named": s.Submit("fails.tengo")}, prints: map[string]string{}}
	s.Writ("secret", "set", "named", "--file", "value")
	nodes, err := s.Client.Nodes.List(t.Context(), api.ListNodesParams{})
	if err != nil {
		t.Fatal(err)
	}
	r.prints["named-p"] = nodes[0].Key
	s.Writ("user", "add", "alice", "--role", "viewer", "--project", "default", "--valid", "170h")

	commands := map[string][]string{
		"sign":        {"sign", "fails.tengo"},
		"payload":     {"payload", "fails.tengo"},
		"submit":      {"submit", "fails.tengo"},
		"logs":        {"logs", "container/none", "--dc", "east"},
		"user add":    {"user", "add", "alice", "--role", "admin", "--project", "default"},
		"user remove": {"user", "remove", "bob"},
		"project add": {"project", "add", "more"},
		"roster":      {"roster", "renew"},
	}
	for name, d := range decisions {
		commands[name] = r.words(d.args)
	}
	// Decisions about several runs require open and failed runs.
	s.Script("open.tengo", "import(\"volume\").create(\"a\", {size_gib: 1})\n")
	s.Writ("hold", "--operation", "volume.create")
	for script, state := range map[string]writ.RunState{"open.tengo": writ.RunRunning, "fails.tengo": writ.RunFailed} {
		id := s.Submit(script)
		s.Until(script+" is "+string(state), func(ctx context.Context) bool {
			run, err := s.Client.Runs.Get(ctx, id)
			return err == nil && run.State == api.RunState(state)
		})
	}
	commands["project cancel-runs"] = []string{"run", "cancel", "--all", "--script", "open.tengo", "--yes"}
	commands["project resume-runs"] = []string{"run", "resume", "--all", "--script", "fails.tengo", "--yes"}
	l := newLiar(t, s.URL)
	s.AlsoAt(l.URL)
	l.keep(true)
	const warning = "the role viewer of alice on default expires on"
	for name, args := range commands {
		for i := range args {
			if args[i] == "named-n" || args[i] == "named-p" {
				args[i] = nodes[0].Name
			}
		}
		if _, said, _ := s.Try(append(args, "--server", l.URL)...); strings.Count(said, warning) != 1 {
			t.Errorf("%s says\n%s", name, said)
		}
	}
	const aged = "of the roster expires on"
	if _, said, _ := s.Try("payload", "fails.tengo"); strings.Contains(said, aged) {
		t.Errorf("warning about a new roster:\n%s", said)
	}
	_, err = s.Client.Roster.Amend(t.Context(), func(next *identity.Roster) error {
		next.Created = next.Created.Add(-identity.RosterValidity/2 - time.Hour)
		next.Expires = next.Created.Add(identity.RosterValidity)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{commands["payload"], commands["node cordon"], {"plan", "fails.tengo"}} {
		if _, said, _ := s.Try(args...); strings.Count(said, aged) != 1 {
			t.Errorf("%v with a roster past half of its validity:\n%s", args, said)
		}
	}
	if add := s.Start("add west", "Start the supervisor", "dc", "add", "west", "--region", "here"); strings.Count(add.Said(), warning) != 1 {
		t.Errorf("dc add says\n%s", add.Said())
	}
}
