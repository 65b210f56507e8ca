package main

import (
	"context"
	"strings"
	"testing"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/internal/test/testenv"
)

// TestAStuckDriverIsNamedAndBlocksNoOtherWork makes a driver ignore the deadline of its run.
//
// Promise: Recovery: A job whose driver does not stop ends as expired, and its node lists the driver until it returns
// and reports its effect.
// How: Beats name the drivers that ignore their deadline, with resource and start time.
// Also: TestStuckDriverExpiresAndIsNamed, TestOverdueDriverBlocksOnlyItsResource.
func TestAStuckDriverIsNamedAndBlocksNoOtherWork(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestOverdueDriverBlocksOnlyItsResource of runner and TestStuckDriverExpiresAndIsNamed of supervisor, in virtual time")
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Script("stuck.tengo", "herodb := import(\"herodb\")\nherodb.create(\"stuck-30-db\", {memory_mib: 64})\n")
	s.Script("other.tengo", "herodb := import(\"herodb\")\nherodb.create(\"db\", {memory_mib: 64})\n")
	end := func(args ...string) api.Run { return s.Follow(s.Submit(args...), -1, func() {}) }

	stuck := end("stuck.tengo", "--deadline", "5s")
	if stuck.State != api.RunStateExpired {
		t.Fatalf("the run is %s: %+v", stuck.State, stuck.Failure)
	}
	s.Says(0, []string{"stuck since", "herodb.create stuck-30-db, call 1 of run " + string(stuck.ID)}, "node", "show", "dc1-n1")
	next := s.Submit("stuck.tengo")
	s.Says(0, []string{"on dc1-n1 the driver of herodb.create in call 1 of run " + string(stuck.ID)}, "run", "explain", string(next))
	s.Succeeded(end("other.tengo"))
	s.Succeeded(s.Follow(next, -1, func() {})) // with the resource that the driver created in the end
	s.Until("the node without stuck jobs", func(context.Context) bool {
		return !strings.Contains(s.Writ("node", "show", "dc1-n1"), "stuck")
	})
}
