package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
	"writ/runner/member"
	"writ/supervisor/nodes"
)

// TestNodesOfABatchJoinWithoutACommandForEach signs a list of serial numbers before the machines request to join.
func TestNodesOfABatchJoinWithoutACommandForEach(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	nodeAPI := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Listen: nodeAPI, Nodes: 0, Speed: "0"})
	join := func(name, serial string) writ.Admission {
		t.Helper()
		m, err := member.Join(t.Context(), member.Joining{
			Dir: t.TempDir(), API: &nodes.Client{URL: "http://" + nodeAPI}, Cluster: s.Client.Context.Cluster, Name: name, Serial: serial,
		})
		if err != nil {
			t.Fatal(err)
		}
		return m.Admission()
	}

	for list, says := range map[string]string{
		"":                           "has 0 serial numbers",
		"SN-0001\nSN-0001\n":         "line 2: \"SN-0001\" is listed twice",
		"# rack 7\nDefault string\n": "line 2: \"Default string\" is not a serial number",
	} {
		s.Script("bad.txt", list)
		if _, said, code := s.Try("batch", "create", "--serials", "bad.txt"); code != writ.ExitUsage || !strings.Contains(said, says) {
			t.Errorf("of %q: exit %d\n%s", list, code, said)
		}
	}
	s.Script("rack7.txt", "# rack 7\nSN-0003\nSN-0001  # top\nSN-0002\n")
	if _, said, code := s.Try("batch", "create", "--serials", "rack7.txt", "--max", "4"); code != writ.ExitUsage {
		t.Errorf("more nodes than numbers: exit %d\n%s", code, said)
	}
	_, said, code := s.Try("batch", "create", "--serials", "rack7.txt", "--max", "2", "--valid", "1h", "--reason", "rack 7 is set up")
	if code != 0 || !strings.Contains(said, "can be copied") || !strings.Contains(said, "admits 2 nodes of 3 serial numbers") {
		t.Fatalf("exit %d\n%s", code, said)
	}
	if got := join("first", "SN-0001"); got != writ.AdmissionApproved {
		t.Errorf("a machine of the list is %s", got)
	}
	if got := join("stranger", "SN-0004"); got != writ.AdmissionPending {
		t.Errorf("another machine is %s", got)
	}
	if got := join("copy", "SN-0001"); got != writ.AdmissionPending {
		t.Errorf("a machine with the number of another one is %s", got)
	}
	var id string
	s.Until("the batch is listed with its node", func(context.Context) bool {
		list := s.Writ("batch", "list", "--dc", "dc1")
		id = strings.Fields(strings.Split(list, "\n")[1])[0]
		return strings.Contains(list, "1 of 2") && strings.Contains(list, "SN-0001 (first has it, copy asks)") && !strings.Contains(list, "SN-0002")
	})
	s.Writ("batch", "revoke", id, "--reason", "the rack is complete")
	if got := join("second", "SN-0002"); got != writ.AdmissionPending {
		t.Errorf("after the batch was revoked a machine of the list is %s", got)
	}
	if list := s.Writ("batch", "list"); !strings.Contains(list, "revoked") {
		t.Errorf("the batches are listed as\n%s", list)
	}
	s.Until("the decision in the output of node show", func(context.Context) bool {
		return strings.Contains(s.Writ("node", "show", "first"), "approve by alice")
	})
}
