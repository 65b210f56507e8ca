package boot

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/beevik/ntp"

	"writ/efi/boot/clock"
)

// clockOf returns a clock with one time server, whose offset ask returns.
func clockOf(ask func() (time.Duration, error)) *clock.Clock {
	return &clock.Clock{
		Servers: []string{"ntp.example.org"}, Now: func() time.Time { return time.Now().AddDate(27, 0, 0) }, Slew: func(time.Duration) error { return nil }, Step: func(time.Time) error { return nil },
		Ask: func(string) (*ntp.Response, error) {
			offset, err := ask()
			return &ntp.Response{ClockOffset: offset}, err
		},
	}
}

// The clock of a machine may be wrong by hours if its time servers answer late. The page shows the reason and the
// remedy.
func TestPageShowsWhyTheClockIsNotCorrected(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		ctx, stop := context.WithCancel(p.t.Context())
		defer func() { stop(); m.work.Wait() }()
		var offset atomic.Pointer[time.Duration] // nil while the server is silent
		var asked atomic.Int32
		m.work.Go(func() {
			m.clock.keep(ctx, clockOf(func() (time.Duration, error) {
				asked.Add(1)
				if by := offset.Load(); by != nil {
					return *by, nil
				}
				return 0, errors.New("read udp 10.0.0.4:4711->10.0.0.1:123: i/o timeout")
			}), errors.New("ask ntp.example.org for the time: read udp 10.0.0.4:4709->10.0.0.1:123: i/o timeout"))
		})
		p.begin()
		p.says("serving", 2*time.Second, joins)
		p.want(1, "This machine serves as a node.\n", "    clock        not corrected: no time server answered\n")
		p.wait(50 * time.Second)
		if shown := p.shows(); asked.Load() != 1 || strings.Contains(shown, "error") || strings.Contains(shown, "This machine") {
			t.Errorf("after the same failure, %d times, the screen shows\n%s", asked.Load(), shown)
		}
		offset.Store(new(2 * time.Hour))
		p.wait(15 * time.Second)
		p.want(1, "clock    error: ntp.example.org reports that the clock is off by 2h0m0s, which is too much to correct while the machine runs\n", "clock    hint: ",
			"    clock        not corrected: ntp.example.org reports that the clock is off\n                 by 2h0m0s, which is too much to correct while the machine\n                 runs: compare the clock with another one;")
		offset.Store(new(time.Second))
		p.wait(40 * time.Second)
		p.want(1, "clock    set by 1s with ntp.example.org\n", "This machine serves as a node.\n")
		p.wait(2 * time.Minute)
		if shown := p.shows(); strings.Contains(shown, "not corrected") {
			t.Errorf("when it is right the screen shows\n%s", shown)
		}
	})
}

// A start that waits for time servers shows this before they could answer.
func TestStartShowsTheTimeRequest(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		ctx, stop := context.WithCancel(p.t.Context())
		defer func() { stop(); m.work.Wait() }()
		asked := make(chan struct{})
		m.work.Go(func() {
			_ = m.clock.correct(ctx, clockOf(func() (time.Duration, error) {
				<-asked
				return 0, nil
			}))
		})
		p.want(0, "clock    asks for the time: ntp.example.org\n")
		close(asked)
		p.want(0, "clock    right by ntp.example.org\n")
	})
}
