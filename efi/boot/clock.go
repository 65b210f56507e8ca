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

// How a clock is corrected.
const (
	askWithin = 3 * time.Second // to find the server, and as long for its answer
	askMostOf = 2 * askWithin
	fineWith  = time.Millisecond       // less is not corrected
	slewBelow = 500 * time.Millisecond // less is corrected bit by bit, so that no moment is there twice
	// stepMost bounds what servers can do to a clock that was right: NTP is not signed, and signed texts have an end.
	stepMost = time.Minute
)

// clock is corrected by time servers that the operator names.
type clock struct {
	servers []string
	now     func() time.Time
	ask     func(server string) (*ntp.Response, error)
	slew    func(by time.Duration) error
	step    func(to time.Time) error
}

// query asks a time server.
func query(server string) (*ntp.Response, error) {
	return queryBy(&net.Dialer{Timeout: askWithin}, server)
}

// queryBy asks a time server that a dialer finds: by itself the library waits for nameservers as long as these like.
func queryBy(dialer *net.Dialer, server string) (*ntp.Response, error) {
	answer, err := ntp.QueryWithOptions(server, ntp.QueryOptions{
		Timeout: askWithin, Dialer: func(_, remote string) (net.Conn, error) { return dialer.Dial("udp", remote) },
	})
	if err != nil {
		return nil, err
	}
	return answer, answer.Validate()
}

// correct asks the servers, one after the other, and corrects the clock by the first that answers. It says what it did. At the start of the machine
// any time is believed that can be the present; later the clock is set by stepMost at most.
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

// noTime is the error of time servers that have told no time. possible says whether the clock can be right without them.
func noTime(err error, possible bool) error {
	text, hint := strings.ReplaceAll(err.Error(), "\n", "; "), "check that they run and that this network reaches them, or name others with writ.ntp"
	if !possible {
		text += ". The clock of this machine cannot be right"
		hint += ". Or set the clock in the firmware's setup"
	}
	return writ.Errorf(writ.CodeClockSkew, "no time server has told the time: %s", text).WithHint("%s", hint)
}

// by corrects the clock by an offset.
func (c *clock) by(server string, offset time.Duration, start bool) (string, error) {
	right, size := c.now().Add(offset), offset.Abs()
	if err := checkClock(right); err != nil {
		return "", writ.Errorf(writ.CodeClockSkew, "%s says that it is %s", server, right.UTC().Format(time.RFC3339)).WithHint("name another time server")
	}
	switch {
	case size < fineWith:
		return "right by " + server, nil
	case size < slewBelow:
		return fmt.Sprintf("corrected by %s with %s", offset.Round(time.Millisecond), server), c.slew(offset)
	case !start && size > stepMost:
		return "", writ.Errorf(writ.CodeClockSkew, "%s says that the clock is wrong by %s, which is not believed while the machine runs", server, offset.Round(time.Second)).
			WithHint("compare the clock with another one; if the server is right, start the machine again")
	}
	return fmt.Sprintf("set by %s with %s", offset.Round(time.Millisecond), server), c.step(right)
}
