package clock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/beevik/ntp"

	"writ"
	"writ/efi/progress"
)

// Promise: Machines from an image: A time server cannot move the clock of a running node by more than a minute.
// How: Larger errors and impossible years are reported and not corrected.
// Also: TestPageShowsWhyTheClockIsNotCorrected.
func TestAClockIsCorrectedByTheFirstServerThatAnswers(t *testing.T) {
	now := time.Date(2026, 11, 26, 5, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		offset  time.Duration
		start   bool
		slewed  time.Duration
		stepped time.Time
		code    writ.Code
	}{
		"right":                      {offset: 300 * time.Microsecond},
		"a little late":              {offset: 200 * time.Millisecond, slewed: 200 * time.Millisecond},
		"a little early":             {offset: -499 * time.Millisecond, slewed: -499 * time.Millisecond},
		"late while it runs":         {offset: 40 * time.Second, stepped: now.Add(40 * time.Second)},
		"very late at the start":     {offset: 50 * time.Hour, start: true, stepped: now.Add(50 * time.Hour)},
		"very late while it runs":    {offset: 2 * time.Minute, code: writ.CodeClockSkew},
		"very early while it runs":   {offset: -2 * time.Minute, code: writ.CodeClockSkew},
		"in another century":         {offset: 200 * 365 * 24 * time.Hour, start: true, code: writ.CodeClockSkew},
		"before there was a program": {offset: -10 * 365 * 24 * time.Hour, start: true, code: writ.CodeClockSkew},
	} {
		var slewed time.Duration
		var stepped time.Time
		c := &Clock{
			Servers: []string{"away", "here", "later"},
			Now:     func() time.Time { return now },
			Ask: func(server string) (*ntp.Response, error) {
				if server == "away" {
					return nil, errors.New("no answer")
				}
				if server == "later" {
					t.Errorf("%s: a second server is believed", name)
				}
				return &ntp.Response{ClockOffset: tt.offset}, nil
			},
			Slew: func(by time.Duration) error { slewed = by; return nil },
			Step: func(to time.Time) error { stepped = to; return nil },
		}
		did, err := c.Correct(tt.start)
		if slewed != tt.slewed || !stepped.Equal(tt.stepped) || writ.CodeOf(err) != tt.code || err == nil && !strings.Contains(did, "here") {
			t.Errorf("%s: slewed by %s, set to %s, %q, %v", name, slewed, stepped, did, err)
		}
	}
	c := &Clock{Servers: []string{"a", "b"}, Ask: func(string) (*ntp.Response, error) { return nil, errors.New("no answer") }}
	if _, err := c.Correct(true); err == nil || !strings.Contains(err.Error(), "ask a") || !strings.Contains(err.Error(), "ask b") {
		t.Errorf("without an answer: %v", err)
	}
	for possible, want := range map[bool]string{true: "no time server answered: x", false: "no time server answered: x. The clock of this machine is wrong"} {
		if err := NoAnswer(errors.New("x"), possible); err.Error() != want || progress.HintOf(err) == "" {
			t.Errorf("without an answer it is %v", err)
		}
	}
}
