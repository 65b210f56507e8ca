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

// talker is a driver of volumes that says each second how far it is, for a minute.
type talker struct{ simDriver }

func (d talker) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	for i := range 60 {
		r.Progress(fmt.Sprintf("%02d of 60\x1b", i+1))
		time.Sleep(time.Second)
	}
	change, err := d.host.effect(r, keyOf(r.Key))
	return sal.Outcome{Change: change, Values: answerOf(r)}, err
}

// How far a call is comes to people while it runs, now and then: each time is a write and an event.
//
// Promise: Operation: Progress of calls is visible where drivers report it: downloads of images and copies between
// nodes.
// How: A part of each beat, without secrets; after four texts, each call produces at most one event every ten seconds.
// Also: TestTheProgressOfADownloadIsReported, TestASecretEndsAtTheDriver.
func TestARunReportsTheProgressOfItsCalls(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1", func(n *realNode) { n.drivers = []sal.Driver{talker{simDriver{newSimHost(1), "volume"}}} })
		id := s.submit(makes("v", `{}`))
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[0].Why.String() != "" {
			t.Errorf("of a call that has ended it says %q", calls[0].Why.String())
		}
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, e := range events {
			if e.Call != nil && e.Call.Run == id && e.Call.State == writ.CallRunning && e.Call.Why.String() != "" {
				said = append(said, e.Call.Why.String())
			}
		}
		if len(said) < 8 || len(said) > 10 || !slices.IsSorted(said) || !strings.Contains(said[0], " of 60") {
			t.Errorf("people are told %q", said)
		}
	})
}
