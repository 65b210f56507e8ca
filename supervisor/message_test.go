//go:build !checksums

package supervisor_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/cbor"
	"writ/runner/queue"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// signUnnamed signs records as earlier runners do, in an envelope that does not name its kind.
func signUnnamed(kind envelope.Kind, key ed25519.PrivateKey, records ...any) ([]byte, error) {
	frame, err := cbor.Marshal(records)
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(key.Public().(ed25519.PublicKey))
	signature := ed25519.Sign(key, append([]byte("writ-"+string(kind)+"-v1\x00"), frame...))
	return cbor.Marshal([][]byte{id[:], signature, frame, nil})
}

// A datacenter is upgraded node by node, so a supervisor handles each kind of message in the form of earlier runners.
func TestUnnamedMessagesAreHandled(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", answering(func(*nodes.LogReport) {}), func(n *testNode) { n.signs = signUnnamed })
		s.wantState(s.submit(`volume := import("volume")`+"\n"+`volume.create("v", {size_gib: 1})`), writ.RunSucceeded) // beats and results
		n.describe(nodes.HostReport{Incarnation: 1, Count: 1, Host: writ.Host{Kernel: "6.1.0"}})
		if host := s.lastAbout(n.id).Host; host == nil || host.Kernel != "6.1.0" {
			t.Errorf("the host report had no effect: %+v", host)
		}
		n.send(envelope.Report, writ.Report{Node: n.id, Incarnation: 1, Round: 1, Findings: writ.Findings{Orphans: []writ.Orphan{{Module: "volume", Kind: "subvolume", Name: "v0"}}}})
		time.Sleep(2 * time.Second)
		if orphans := s.lastAbout(n.id).Orphans; len(orphans) != 1 {
			t.Errorf("the report had no effect: orphans %v", orphans)
		}
		if log, err := s.logOf(link.LogOfNode{Node: n.id}); err != nil || len(log.Lines) != 1 {
			t.Errorf("the log has %d lines, %v", len(log.Lines), err)
		}
	})
}

// An attacker who owns Redis changes the kind that messages name. Each changed message is rejected without an effect.
func TestMessageWithWrongKindIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := found(t)
		s.place, s.level = filepath.Join(t.TempDir(), "journal.db"), slog.LevelInfo
		s.start()
		n := s.join("n1")
		time.Sleep(2 * time.Second)
		n.setSilent(true)
		time.Sleep(20 * time.Second)
		n.mu.Lock()
		beat := writ.Beat{Node: n.id, Incarnation: 1, Sequence: n.sequence + 100, Epoch: n.epoch, Clock: time.Now().UnixMilli(), Health: writ.Health{Slots: 4}}
		n.mu.Unlock()
		send := func(kind envelope.Kind) {
			t.Helper()
			signed, err := envelope.Sign(envelope.Beat, n.key, beat)
			if err != nil {
				t.Fatal(err)
			}
			named, renamed := append([]byte{0x64}, "beat"...), append([]byte{0x60 + byte(len(kind))}, kind...)
			signed = bytes.Replace(signed, named, renamed, 1)
			if err := s.queue.Send(t.Context(), queue.Stream{Node: n.id, Direction: queue.Out}, signed); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		for _, kind := range []envelope.Kind{envelope.Result, envelope.Report, envelope.Host, envelope.Log, envelope.Control, "other", ""} {
			send(kind)
			if got := s.liveness(n.id); got != writ.LivenessSilent {
				t.Errorf("after a beat with the kind %q the node is %s", kind, got)
			}
		}
		time.Sleep(5 * time.Second)
		if lines, bad := s.refusals(); lines["open message of a node; it is discarded: SIGNATURE_INVALID"] == 0 || len(bad) > 0 {
			t.Errorf("the rejected messages were logged as %v%s", lines, strings.Join(bad, ""))
		}
		send(envelope.Beat)
		if got := s.liveness(n.id); got != writ.LivenessReady {
			t.Errorf("after the unchanged beat the node is %s", got)
		}
	})
}
