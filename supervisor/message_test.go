//go:build !checksums

package supervisor_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/runner/queue"
)

// An attacker who owns Redis changes the kind that messages name. Each changed message is rejected without an effect.
func TestMessageWithWrongKindIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster(t)
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
		for _, kind := range []envelope.Kind{envelope.Result, envelope.Report, envelope.Host, envelope.Load, envelope.Log, envelope.Control, "other", ""} {
			send(kind)
			if got := s.liveness(n.id); got != writ.LivenessSilent {
				t.Errorf("node after a beat of kind %q is %s, want silent", kind, got)
			}
		}
		time.Sleep(5 * time.Second)
		if lines, bad := s.refusals(); lines["open message of a node; it is discarded: SIGNATURE_INVALID"] == 0 || len(bad) > 0 {
			t.Errorf("logged refusals = %v%s", lines, strings.Join(bad, ""))
		}
		send(envelope.Beat)
		if got := s.liveness(n.id); got != writ.LivenessReady {
			t.Errorf("node after the unchanged beat is %s, want ready", got)
		}
	})
}
