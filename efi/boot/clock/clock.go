// Package clock corrects the clock of a machine with the configured time servers. Time servers are not authenticated,
// so once the machine runs, a correction is at most one minute. The package does not decide when to query the servers.
package clock

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/beevik/ntp"

	"writ"
	"writ/efi/progress"
)

// Limits for the correction of the clock.
const (
	askWithin = 3 * time.Second // limit of the name lookup, and again of the answer
	askMostOf = 2 * askWithin
	fineWith  = time.Millisecond       // smaller offsets are ignored
	slewBelow = 500 * time.Millisecond // smaller offsets are slewed, so that no time occurs twice
	// stepMost limits the steps of the clock while the machine runs. NTP is not signed, so an attacker can forge a time,
	// and the clock decides which signed messages have expired.
	stepMost = time.Minute
)

// Clock is the clock of a machine with its time servers. New returns the kernel's clock.
type Clock struct {
	Servers []string
	Now     func() time.Time
	Ask     func(server string) (*ntp.Response, error) // queries one time server
	Slew    func(by time.Duration) error               // adjusts the clock gradually
	Step    func(to time.Time) error                   // sets the clock
}

// query asks a time server for the time.
func query(server string) (*ntp.Response, error) {
	return queryBy(&net.Dialer{Timeout: askWithin}, server)
}

// queryBy asks a time server through dialer. The dialer's timeout also limits the name lookup, which the NTP library
// does not limit.
func queryBy(dialer *net.Dialer, server string) (*ntp.Response, error) {
	answer, err := ntp.QueryWithOptions(server, ntp.QueryOptions{
		Timeout: askWithin, Dialer: func(_, remote string) (net.Conn, error) { return dialer.Dial("udp", remote) },
	})
	if err != nil {
		return nil, err
	}
	return answer, answer.Validate()
}

// Correct asks the servers in order and applies the first answer. It returns a description of the correction. At the
// start of the machine (start is true), it accepts every plausible time; later it steps the clock by at most stepMost.
func (c *Clock) Correct(start bool) (did string, err error) {
	var failed []error
	for _, server := range c.Servers {
		answer, err := c.Ask(server)
		if err == nil {
			return c.by(server, answer.ClockOffset, start)
		}
		failed = append(failed, fmt.Errorf("ask %s for the time: %w", server, err))
	}
	return "", errors.Join(failed...)
}

// NoAnswer wraps err, the failure of all time servers. possible reports whether the clock is plausible without an
// answer.
func NoAnswer(err error, possible bool) error {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	hint := "check that they run and that this network reaches them, or name others with writ.ntp"
	if !possible {
		text += ". The clock of this machine is wrong"
		hint += ". Or set the clock in the firmware's setup"
	}
	return writ.Errorf(writ.CodeClockSkew, "no time server answered: %s", text).WithHint("%s", hint)
}

// by corrects the clock by offset, which server returned.
func (c *Clock) by(server string, offset time.Duration, start bool) (string, error) {
	right, size := c.Now().Add(offset), offset.Abs()
	if err := Check(right); err != nil {
		return "", writ.Errorf(writ.CodeClockSkew, "%s reports the time %s", server, right.UTC().Format(time.RFC3339)).
			WithHint("name another time server")
	}
	switch {
	case size < fineWith:
		return "right by " + server, nil
	case size < slewBelow:
		return fmt.Sprintf("corrected by %s with %s", offset.Round(time.Millisecond), server), c.Slew(offset)
	case !start && size > stepMost:
		return "", writ.Errorf(writ.CodeClockSkew,
			"%s reports that the clock is off by %s, which is too much to correct while the machine runs", server,
			offset.Round(time.Second)).
			WithHint("compare the clock with another one; if the server is right, start the machine again")
	}
	return fmt.Sprintf("set by %s with %s", offset.Round(time.Millisecond), server), c.Step(right)
}

const (
	// Rounds limits how often the start asks all time servers if the clock is plausible.
	Rounds = 2
	// AskAgain is the pause between two rounds.
	AskAgain = time.Second
)

// Limit returns how long the start waits for the time servers. The wait has no limit if the clock is implausible.
func (c *Clock) Limit() progress.Limit {
	if Check(c.Now()) != nil {
		return progress.Limit{Then: "without the time no certificate can be verified"}
	}
	return progress.Limit{
		Most: Rounds*time.Duration(len(c.Servers))*askMostOf + (Rounds-1)*AskAgain,
		Then: "the start continues with the hardware clock",
	}
}

// The range of plausible clock times. A clock outside this range was never set, and the verification of certificates
// would fail with a misleading error.
var (
	clockFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clockTo   = time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Check returns an error if the time `now` is outside the plausible range.
func Check(now time.Time) error {
	if now.Before(clockFrom) || now.After(clockTo) {
		return writ.Errorf(writ.CodeClockSkew, "the clock of this machine shows %s", now.UTC().Format(time.RFC3339)).
			WithHint("set the clock in the firmware's setup, and replace its battery if it does not keep the time")
	}
	return nil
}
