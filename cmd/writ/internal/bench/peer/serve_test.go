package peer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"writ/cmd/writ/internal/bench/peer"
)

// clerk is a system that counts calls. If fails is set, its third run fails.
type clerk struct {
	fails             bool
	begun, ended, ran atomic.Int64
}

func (c *clerk) About() peer.About { return peer.About{Name: "clerk", Durability: "none"} }

func (c *clerk) Begin(context.Context, peer.Order) (func() error, error) {
	c.begun.Add(1)
	return func() error { c.ended.Add(1); return nil }, nil
}

func (c *clerk) Run(_ context.Context, i int) error {
	c.ran.Add(1)
	if c.fails && i == 2 {
		return errors.New("out of ink")
	}
	return nil
}

func TestEveryOrderIsAnswered(t *testing.T) {
	for _, fails := range []bool{false, true} {
		c := &clerk{fails: fails}
		var out bytes.Buffer
		if err := peer.Serve(t.Context(), c, strings.NewReader(`{"runs":2,"in_flight":2,"calls":1}`+"\n"+`{"runs":5,"in_flight":1,"calls":1}`), &out); err != nil {
			t.Fatal(err)
		}
		var about peer.About
		var first, second peer.Answer
		said := json.NewDecoder(&out)
		if err := errors.Join(said.Decode(&about), said.Decode(&first), said.Decode(&second)); err != nil {
			t.Fatal(err)
		}
		if about != c.About() || len(first.Took.Runs) != 2 || first.Error != "" || c.begun.Load() != 2 || c.ended.Load() != 2 {
			t.Errorf("%+v, %+v, %d begun, %d ended", about, first, c.begun.Load(), c.ended.Load())
		}
		if wrong := strings.Contains(second.Error, "run 3 of 5: out of ink"); wrong != fails || !fails && c.ran.Load() != 7 {
			t.Errorf("after %d runs: %q", c.ran.Load(), second.Error)
		}
	}
}

func TestAnInvalidOrderEndsThePeer(t *testing.T) {
	if err := peer.Serve(t.Context(), new(clerk), strings.NewReader("please"), new(bytes.Buffer)); err == nil {
		t.Error("no error")
	}
}
