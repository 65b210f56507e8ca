package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// TestNodeRefusesForeignDrivers gives a node the directory of another node's drivers.
func TestNodeRefusesForeignDrivers(t *testing.T) {
	testenv.Nightly(t, "TestForeignDriverRecordsAreRefused of package runnerd and TestDriverRecordsAreBound of package runner")
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 2, Speed: "0"})
	at := func(node string) string { return filepath.Join(s.Dir, node, "host") }
	s.Kill("dc1-n1")
	s.Kill("dc1-n2")
	for _, move := range [][2]string{{at("dc1-n1"), at("x")}, {at("dc1-n2"), at("dc1-n1")}, {at("x"), at("dc1-n2")}} {
		if err := os.MkdirAll(filepath.Dir(move[1]), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
	output, code := s.RestartFails("dc1-n1")
	if code != writ.ExitConflict || !strings.Contains(output, string(writ.CodeDataIncomplete)) ||
		!strings.Contains(output, "swap them back") {
		t.Errorf("with the drivers of another node it ends with %d:\n%s", code, output)
	}
}
