package rehearsal

import (
	"crypto/ed25519"
	"testing"

	"writ"
	"writ/identity/envelope"
	"writ/runner/queue"
	"writ/runner/queue/memory"
)

// TestNodeIsHeardWithItsFirstBeat sends the facts of the host before the first heartbeat. Work that began between the
// two would find one candidate fewer.
func TestNodeIsHeardWithItsFirstBeat(t *testing.T) {
	transport := memory.New()
	t.Cleanup(func() { transport.Close() })
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	beats := newFirstBeats(transport, 1)
	acknowledge := func(kind envelope.Kind, record any) (heard bool) {
		body, err := envelope.Sign(kind, key, record)
		if err != nil {
			t.Fatal(err)
		}
		m := queue.Message{Stream: queue.Stream{Node: "n1", Direction: queue.Out}, Body: body}
		_ = beats.Acknowledge(t.Context(), m) // the queue does not have the message
		select {
		case <-beats.rang:
			return true
		default:
			return false
		}
	}
	if acknowledge(envelope.Host, writ.Host{}) {
		t.Error("the facts of the host count as a heartbeat")
	}
	if !acknowledge(envelope.Beat, writ.Beat{Node: "n1"}) {
		t.Error("the heartbeat does not count")
	}
}
