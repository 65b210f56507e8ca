package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

const (
	makesData = `
volume := import("volume")
run := import("run")
run.output({path: volume.create("data", {size_gib: 1}, {node: "dc1-n1"}).path})
`
	copiesData = `
volume := import("volume")
run := import("run")
params := {name: {type: "string"}, node: {type: "string"}}
made := volume.copy(run.params.name, {from: "data", size_gib: 1}, {node: run.params.node})
run.output({path: made.path})
`
	copiesBack = `
volume := import("volume")
volume.copy("back", {from: volume.get("copy"), size_gib: 1}, {node: "dc1-n1"}).path
`
)

// TestACopyBetweenNodesOutlivesTheirEnds copies a volume between nodes over a slow connection, and kills both nodes in
// the middle. The copy equals the volume, only data in transit was sent twice, and no other trace remains.
func TestACopyBetweenNodesOutlivesTheirEnds(t *testing.T) {
	t.Parallel()
	broker := testenv.RedisWithPassword(t)
	s := testcluster.New(t)
	listen := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	wire := testcluster.NewWire(t, listen)
	s.Add(testcluster.Datacenter{
		Name: "dc1", Redis: broker.URL, Nodes: 2, Speed: "0", Node: []string{"--drivers", "auto", "--transfer-allow", "127.0.0.0/8"},
		Own: [][]string{{"--transfers", listen, "--public-transfers", wire.Addr}},
	})
	s.Says(0, []string{"serves copies of its volumes to other nodes at " + wire.Addr}, "node", "show", "dc1-n1")
	for name, text := range map[string]string{"make.tengo": makesData, "copy.tengo": copiesData, "back.tengo": copiesBack} {
		s.Script(name, text)
	}
	content := make([]byte, 40<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	data := pathOf(t, s, s.Submit("make.tengo"))
	if err := os.WriteFile(filepath.Join(data, "content"), content, 0o640); err != nil {
		t.Fatal(err)
	}

	wire.Spoil(t, testcluster.Narrow)
	id := s.Submit("copy.tengo", "-p", "name=copy", "-p", "node=dc1-n2")
	for i, victim := range []string{"dc1-n2", "dc1-n1"} {
		s.Until("more has arrived", func(context.Context) bool { return arrived(t, s, "dc1-n2") > int64(2+8*i)<<20 })
		if n := arrived(t, s, "dc1-n2"); n >= int64(len(content)) {
			t.Errorf("%d bytes had arrived before %s was ended", n, victim)
		}
		s.Kill(victim)
		s.Restart(victim)
	}
	wire.Heal()
	copied := pathOf(t, s, id)
	if got, err := os.ReadFile(filepath.Join(copied, "content")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the copy has %d bytes, %v", len(got), err)
	}
	if said := s.Procs["dc1-n1"].Said(); !strings.Contains(said, "archive sent") || strings.Contains(said, "offset=0") {
		t.Errorf("the copy did not continue at its offset:\n%s", said)
	}

	// On its own node it is a clone.
	twin := pathOf(t, s, s.Submit("copy.tengo", "-p", "name=twin", "-p", "node=dc1-n1"))
	if got, err := os.ReadFile(filepath.Join(twin, "content")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the twin has %d bytes, %v", len(got), err)
	}
	if again := pathOf(t, s, s.Submit("copy.tengo", "-p", "name=copy", "-p", "node=dc1-n2")); again != copied {
		t.Errorf("asked for again the copy is at %s, not %s", again, copied)
	}
	s.Says(writ.ExitFailed, []string{"DRIVER_MISSING", "dc1-n2", "--transfers"}, "submit", "back.tengo")
	left, err := filepath.Glob(filepath.Join(s.Dir, "dc1-n*", "host", "pool", "trees", "*", "snapshots", "*"))
	if err != nil || len(left) > 0 || arrived(t, s, "dc1-n2") >= 0 {
		t.Errorf("%v, %v are left, and %d bytes of an archive", left, err, arrived(t, s, "dc1-n2"))
	}
	s.Runs("coord", "dc1", "dc1-n1", "dc1-n2")
	if conn, err := net.Dial("tcp", listen); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
}

// pathOf waits for the end of a run and returns the path in its output.
func pathOf(t *testing.T, s *testcluster.Cluster, id writ.RunID) string {
	t.Helper()
	summary := s.Succeeded(s.Follow(id, 0, func() {}))
	path, _ := summary.Output["path"].(string)
	if path == "" {
		t.Fatalf("output of run %s = %v", id, summary.Output)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	return path
}

// arrived returns the received size of an archive on a node, or -1 without an archive.
func arrived(t *testing.T, s *testcluster.Cluster, node string) int64 {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.Dir, node, "host", "*", "arriving", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		return -1
	}
	info, err := os.Stat(all[0])
	if err != nil {
		return -1 // it is complete
	}
	return info.Size()
}
