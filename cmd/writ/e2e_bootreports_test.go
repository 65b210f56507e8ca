package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// Operators see the machines of a boot server through the supervisor and the coordinator, if the boot server has a
// token of the datacenter.
func TestOperatorsSeeFromAnywhereWhichMachinesStart(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	nodeAPI := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Listen: nodeAPI, Nodes: 0, Speed: "0"})
	dir := t.TempDir()
	image := filepath.Join(dir, "node.efi")
	if err := os.WriteFile(image, imageOf(t, "quiet"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(token string) *servedBoot {
		t.Helper()
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		return serveBoot(t, "--image", image, "--cluster", string(s.Client.Context.Cluster), "--report", "@"+file, "--report-to", "http://"+nodeAPI)
	}
	lists := func(what string, is func(list string) bool) {
		t.Helper()
		s.Until(what, func(context.Context) bool { return is(s.Writ("boot", "list", "--dc", "dc1")) })
	}
	if _, said, code := s.Try("token", "create", "--dc", "dc1", "--role", "boot-server", "--uses", "2"); code != writ.ExitUsage {
		t.Errorf("a token that would admit nodes as well: exit %d\n%s", code, said)
	}
	stranger := serve(s.Writ("token", "create", "--dc", "dc1"))
	fetch(t, stranger.url+"/boot/ipxe?mac=52-54-00-77-00-99")
	server := serve(s.Writ("token", "create", "--dc", "dc1", "--role", "boot-server"))
	fetch(t, server.url+"/boot/ipxe?mac=52-54-00-77-00-50&serial=S1")
	lists("the machine is listed", func(list string) bool {
		return strings.Contains(list, "52:54:00:77:00:50") && strings.Contains(list, " script ") && strings.Contains(list, "asked for its script")
	})

	s.Kill("dc1")
	s.Restart("dc1")
	lists("the whole list at a restarted supervisor", func(list string) bool { return strings.Contains(list, "52:54:00:77:00:50") })
	if list := s.Writ("boot", "list", "--dc", "dc1", "-o", "json"); strings.Contains(list, "52:54:00:77:00:99") || !strings.Contains(list, `"serial": "S1"`) {
		t.Errorf("the list is\n%s", list)
	}
	if said := stranger.stop(); !strings.Contains(said, "TOKEN_INVALID") {
		t.Errorf("output of the boot server with the token of a node:\n%s", said)
	}

	var id string
	for line := range strings.Lines(s.Writ("token", "list", "--dc", "dc1")) {
		if strings.Contains(line, "by a boot server") {
			id = strings.Fields(line)[0]
		}
	}
	s.Writ("token", "revoke", id, "--dc", "dc1", "--reason", "the site is closed")
	if list := s.Writ("boot", "list", "--dc", "dc1"); strings.Contains(list, "52:54:00:77:00:50") {
		t.Errorf("after its token was revoked the list is\n%s", list)
	}
	server.stop()
}
