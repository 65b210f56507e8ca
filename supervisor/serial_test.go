package supervisor_test

import (
	"testing"

	"writ"
	"writ/identity"
	"writ/supervisor/link"
)

// The list of pending nodes has the serial number in the node's last claim. The record of an admitted node keeps that
// number.
func TestPendingNodeIsListedWithSerialNumber(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := &testNode{sim: s, name: "n1", key: newKey(t), serial: "SN-0001"}
		var at writ.NodeID
		for _, serial := range []string{"SN-0001", "SN-0002"} {
			n.serial = serial
			w, err := n.claim(identity.Token{})
			if err != nil {
				t.Fatal(err)
			}
			at = w.Node
			answer, err := s.Ask(t.Context(), link.VerbNodes, link.Nodes{})
			list, _ := answer.([]link.NodeNow)
			if err != nil || len(list) != 1 || list[0].Waiting == nil || list[0].Waiting.Host == nil || list[0].Waiting.Host.Serial != serial {
				t.Errorf("node with serial number %s is listed as %+v, %v", serial, list, err)
			}
		}
		if err := s.decision(at, "approve"); err != nil {
			t.Fatal(err)
		}
		if kept := s.Known(at); kept == nil || kept.Serial != "SN-0002" {
			t.Errorf("record of the node = %+v", kept)
		}
		for _, serial := range []string{"S-1", "SN\n0001", "Default string"} {
			if _, err := (&testNode{sim: s, name: "n2", key: newKey(t), serial: serial}).claim(identity.Token{}); writ.CodeOf(err) != writ.CodeBadRequest {
				t.Errorf("claim with serial number %q: %v, want BAD_REQUEST", serial, err)
			}
		}
	})
}
