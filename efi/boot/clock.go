package boot

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/beevik/ntp"

	"writ"
)

// Limits for the correction of the clock.
const (
	askWithin = 3 * time.Second // each for the name lookup and for the answer
	askMostOf = 2 * askWithin
	fineWith  = time.Millisecond       // smaller offsets are ignored
	slewBelow = 500 * time.Millisecond // smaller offsets are slewed, so that no time occurs twice
	// stepMost limits the steps of a clock that was correct before. NTP is not signed, and signed messages expire.
	stepMost = time.Minute
)

// clock is corrected by the configured time servers.
type clock struct {
	servers []string
	now     func() time.Time
	ask     func(server string) (*ntp.Response, error)
	slew    func(by time.Duration) error
	step    func(to time.Time) error
}

// query asks a time server for the time.
func query(server string) (*ntp.Response, error) {
	return queryBy(&net.Dialer{Timeout: askWithin}, server)
}

// queryBy asks a time server through dialer. The dialer's timeout also limits the name lookup, which the library does
// not.
func queryBy(dialer *net.Dialer, server string) (*ntp.Response, error) {
	answer, err := ntp.QueryWithOptions(server, ntp.QueryOptions{
		Timeout: askWithin, Dialer: func(_, remote string) (net.Conn, error) { return dialer.Dial("udp", remote) },
	})
	if err != nil {
		return nil, err
	}
	return answer, answer.Validate()
}

// correct asks the servers in order and applies the first answer. It returns a description of the correction. At the
// start of the machine (start is true), it accepts every plausible time; later it steps the clock by at most stepMost.
func (c *clock) correct(start bool) (did string, err error) {
	var failed []error
	for _, server := range c.servers {
		answer, err := c.ask(server)
		if err == nil {
			return c.by(server, answer.ClockOffset, start)
		}
		failed = append(failed, fmt.Errorf("ask %s for the time: %w", server, err))
	}
	return "", errors.Join(failed...)
}

// noTime wraps err, the failure of all time servers. possible reports whether the clock is plausible without them.
func noTime(err error, possible bool) error {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	hint := "check that they run and that this network reaches them, or name others with writ.ntp"
	if !possible {
		text += ". The clock of this machine is wrong"
		hint += ". Or set the clock in the firmware's setup"
	}
	return writ.Errorf(writ.CodeClockSkew, "no time server answered: %s", text).WithHint("%s", hint)
}

// by corrects the clock by offset, which server returned.
func (c *clock) by(server string, offset time.Duration, start bool) (string, error) {
	right, size := c.now().Add(offset), offset.Abs()
	if err := checkClock(right); err != nil {
		return "", writ.Errorf(writ.CodeClockSkew, "%s reports the time %s", server, right.UTC().Format(time.RFC3339)).
			WithHint("name another time server")
	}
	switch {
	case size < fineWith:
		return "right by " + server, nil
	case size < slewBelow:
		return fmt.Sprintf("corrected by %s with %s", offset.Round(time.Millisecond), server), c.slew(offset)
	case !start && size > stepMost:
		return "", writ.Errorf(writ.CodeClockSkew,
			"%s reports that the clock is off by %s, which is too much to correct while the machine runs", server,
			offset.Round(time.Second)).
			WithHint("compare the clock with another one; if the server is right, start the machine again")
	}
	return fmt.Sprintf("set by %s with %s", offset.Round(time.Millisecond), server), c.step(right)
}
