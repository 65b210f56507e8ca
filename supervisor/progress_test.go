package supervisor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/sal"
)

// talker is a volume driver that reports its progress each second for a minute.
type talker struct{ simDriver }

func (d talker) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	for i := range 60 {
		r.Progress(fmt.Sprintf("%02d of 60\x1b", i+1))
		time.Sleep(time.Second)
	}
	change, err := d.host.effect(r, keyOf(r.Key))
	return sal.Outcome{Change: change, Values: answerOf(r)}, err
}

// The progress of a running call is reported, but rarely, because each text is a write and an event.
//
// Promise: Operation: Progress of calls is visible where drivers report it: downloads of images and copies between
// nodes.
// How: A part of each beat, without secrets; after four texts, each call produces at most one event every ten seconds.
// Also: TestTheProgressOfADownloadIsReported, TestASecretEndsAtTheDriver.
func TestRunReportsProgressOfItsCalls(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1", func(n *realNode) { n.drivers = []sal.Driver{talker{simDriver{newSimHost(1), "volume"}}} })
		id := s.submit(volumeScript("v", `{}`))
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[0].Why.String() != "" {
			t.Errorf("reason of an ended call = %q, want none", calls[0].Why.String())
		}
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var reported []string
		for _, e := range events {
			if e.Call != nil && e.Call.Run == id && e.Call.State == writ.CallRunning && e.Call.Why.String() != "" {
				reported = append(reported, e.Call.Why.String())
			}
		}
		if len(reported) < 8 || len(reported) > 10 || !slices.IsSorted(reported) || !strings.Contains(reported[0], " of 60") {
			t.Errorf("progress events = %q", reported)
		}
	})
}
