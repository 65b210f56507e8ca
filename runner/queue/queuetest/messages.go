package queuetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/runner/queue"
)

var (
	in  = queue.Stream{Node: node, Direction: queue.In}
	out = queue.Stream{Node: node, Direction: queue.Out}
)

func messagesComeInOrderUntilAcknowledged(t *testing.T, transport Transport) {
	sender, reader := transport.Open(t), transport.Open(t)
	for _, text := range []string{"1", "2", "3"} {
		must(t, sender.Send(t.Context(), out, []byte(text)))
	}
	must(t, sender.Send(t.Context(), in, []byte("other direction")))
	got := collect(t, reader, 3, out)
	if diff := cmp.Diff([]string{"1", "2", "3"}, texts(got)); diff != "" {
		t.Error(diff)
	}
	for _, m := range got {
		if m.Stream != out || m.ID == "" {
			t.Errorf("message %q has stream %v and id %q", m.Body, m.Stream, m.ID)
		}
	}
	must(t, reader.Acknowledge(t.Context(), got[1]))
	must(t, reader.Acknowledge(t.Context()))
	must(t, sender.Send(t.Context(), out, []byte("4")))
	if diff := cmp.Diff([]string{"4"}, texts(collect(t, reader, 1, out))); diff != "" {
		t.Errorf("the same process: %s", diff)
	}

	next := transport.Open(t)
	got = collect(t, next, 4, out, in)
	byStream := map[queue.Stream][]string{}
	for _, m := range got {
		byStream[m.Stream] = append(byStream[m.Stream], string(m.Body))
	}
	want := map[queue.Stream][]string{out: {"1", "3", "4"}, in: {"other direction"}}
	if diff := cmp.Diff(want, byStream); diff != "" {
		t.Errorf("the next process: %s", diff)
	}
	must(t, next.Acknowledge(t.Context(), got...))
	must(t, next.Acknowledge(t.Context(), got...)) // repeating it after a lost answer is harmless
	if got, err := transport.Open(t).Receive(t.Context(), time.Millisecond, out, in); err != nil || len(got) != 0 {
		t.Errorf("after all is acknowledged: %q, %v", texts(got), err)
	}
}

func receiveTakesAHundredAtMost(t *testing.T, transport Transport) {
	sender, reader := transport.Open(t), transport.Open(t)
	var want []string
	for i := range 250 {
		want = append(want, fmt.Sprint(i))
		must(t, sender.Send(t.Context(), out, []byte(want[i])))
	}
	must(t, sender.Send(t.Context(), in, []byte("x")))
	for _, who := range []struct {
		name   string
		reader queue.Queue
	}{{"new messages", reader}, {"unacknowledged messages", transport.Open(t)}} {
		var got []string
		for other := false; len(got) < len(want) || !other; {
			messages, err := who.reader.Receive(t.Context(), guard, out, in)
			must(t, err)
			if len(messages) == 0 || len(messages) > 100 {
				t.Fatalf("%s: %d at once after %d", who.name, len(messages), len(got))
			}
			for _, m := range messages {
				if m.Stream == in {
					other = true
				} else {
					got = append(got, string(m.Body))
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", who.name, diff)
		}
	}
}

func receiveWaits(t *testing.T, transport Transport) {
	sender, reader := transport.Open(t), transport.Open(t)
	if got, err := reader.Receive(t.Context(), time.Millisecond, out); err != nil || len(got) != 0 {
		t.Errorf("Receive from an empty stream = %q, %v", texts(got), err)
	}
	if got, err := reader.Receive(t.Context(), time.Millisecond); err != nil || len(got) != 0 {
		t.Errorf("Receive from no stream = %q, %v", texts(got), err)
	}
	began := make(chan struct{})
	sent := make(chan error, 1)
	go func() {
		<-began
		sent <- sender.Send(t.Context(), out, []byte("late"))
	}()
	close(began)
	if diff := cmp.Diff([]string{"late"}, texts(collect(t, reader, 1, out))); diff != "" {
		t.Error(diff)
	}
	must(t, from(t, sent, "the end of Send"))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := reader.Receive(ctx, time.Hour, out)
		ended <- err
	}()
	cancel()
	if err := from(t, ended, "the end of Receive"); !errors.Is(err, context.Canceled) {
		t.Errorf("Receive after its context ended = %v", err)
	}
}

func generationIsLostWithEverything(t *testing.T, transport Transport) {
	q, other := transport.Open(t), transport.Open(t)
	generation := func(want string) {
		t.Helper()
		if got, err := other.Generation(t.Context()); err != nil || got != want {
			t.Errorf("Generation = %q, %v; want %q", got, err, want)
		}
	}
	generation("")
	must(t, q.SetGeneration(t.Context(), "one"))
	generation("one")
	must(t, q.SetGeneration(t.Context(), "two"))
	generation("two")
	transport.Flush(t)
	generation("")
}
