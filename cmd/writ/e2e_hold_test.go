package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// A user holds the work of a datacenter, sees in the run why it waits, and types the command shown there. The same
// works with a supervisor that was started with a hold.
func TestAPersonHoldsWorkAndReleasesIt(t *testing.T) {
	testenv.Nightly(t, "TestAHostileCoordinatorRedirectsNoDecision, and TestHoldPreventsEveryStart of supervisor")
	t.Parallel()
	s := testcluster.New(t)
	redis, listen := testenv.Redis(t).URL, fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: redis, Listen: listen, Nodes: 1, Speed: "0"})
	s.Script("ping.tengo", "node := import(\"node\")\nnode.ping()\n")
	s.Writ("hold", "--dc", "dc1", "--reason", "the disks fail")
	release := func(id writ.RunID, why string, more ...string) {
		t.Helper()
		var said struct{ Why, Next string }
		s.Until("the wait reason of the run", func(context.Context) bool {
			out, _, _ := s.Try("run", "explain", string(id), "-o", "json")
			return json.Unmarshal([]byte(out), &said) == nil && strings.Contains(said.Why, why)
		})
		if said.Next != "writ release --dc dc1" {
			t.Fatalf("next is %q", said.Next)
		}
		s.Writ(append(strings.Fields(said.Next)[1:], more...)...)
		s.Succeeded(s.Follow(id, 0, func() {}))
	}
	first := s.Submit("ping.tengo")
	offers := func(what string, is bool, args ...string) {
		t.Helper()
		if out := s.Writ(append([]string{"__complete"}, args...)...); strings.Contains(out, what) != is {
			t.Errorf("%q offers\n%s", args, out)
		}
	}
	offers(string(first), true, "run", "cancel", "")
	offers(string(first), false, "run", "resume", "")
	s.Says(writ.ExitDone, []string{"dc1", "datacenter", "held", "alice", "the disks fail", "writ release --dc dc1"}, "hold", "list")
	s.Says(writ.ExitDone, []string{"is on hold", "the disks fail"}, "dc", "list")
	release(first, "has held the datacenter since", "--project", "default")
	s.Says(writ.ExitDone, []string{"project default", "released", "datacenter", "held"}, "hold", "list")
	s.Writ("release", "--dc", "dc1")
	offers(string(first), true, "run", "show", "")
	offers(string(first), false, "run", "cancel", "")
	s.Script("make.tengo", "volume := import(\"volume\")\nvolume.create(\"data\", {size_gib: 1})\n")
	s.Succeeded(s.Follow(s.Submit("make.tengo", "--deployment", "web"), 0, func() {}))
	offers("web", true, "hold", "--deployment", "")
	s.Says(writ.ExitConflict, []string{"is not on hold"}, "release", "--dc", "dc1")
	s.Says(writ.ExitUsage, []string{`"machine.explode" is unknown`}, "hold", "--operation", "machine.explode")

	s.Kill("dc1")
	s.Start("dc1", "is listening", "supervisor", "--data", "dc1", "--dc", "dc1", "--coordinator", s.URL, "--redis", redis, "--listen", listen, "--held")
	second := s.Submit("ping.tengo")
	release(second, "the supervisor itself has held the datacenter since")
}
