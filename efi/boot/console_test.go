package boot

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"writ"
)

// stuck is a serial line without a reader.
type stuck chan struct{}

func (s stuck) Write([]byte) (int, error) { <-s; return 0, nil }

// Promise: Machines from an image: A stuck serial line or a card without a cable delays no start.
// How: Each console has its own queue; all cards are asked at once.
// Also: TestTheFirstProcessPreparesAMachine.
func TestStuckConsoleDelaysNothing(t *testing.T) {
	var screen bytes.Buffer
	line := make(stuck)
	c := &consoles{since: func() time.Duration { return 1500 * time.Millisecond }}
	c.add(line)
	c.add(&screen)
	c.Stage("network", "eth0 %s", "10.0.0.5/24")
	c.Fail("clock", errors.Join(writ.Errorf(writ.CodeClockSkew, "it is 1970").WithHint("set it"), errors.New("no battery")))
	c.line("a \x1b[31mrunner\x07 says…")
	go func() { time.Sleep(10 * time.Millisecond); close(line) }() // otherwise close waits for its whole timeout
	c.close(time.Minute)
	want := "writ [   1.50] network  eth0 10.0.0.5/24\r\nwrit [   1.50] clock    error: it is 1970\r\n" +
		"writ [   1.50] clock    hint: set it\r\n" +
		"writ [   1.50] clock    error: no battery\r\na  [31mrunner  says...\r\n"
	if screen.String() != want {
		t.Errorf("the screen shows\n%q, want\n%q", screen.String(), want)
	}
	for range 3 * waiting { // after close, and more lines than fit into the queue
		c.line("late")
	}
}

func TestLinesAreShownInFull(t *testing.T) {
	var shown []string
	w := &lineWriter{show: func(line string) { shown = append(shown, line) }}
	for _, part := range []string{"one\ntw", "o\n", strings.Repeat("x", longest+1), "\n"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(shown) != 4 || shown[0] != "one" || shown[1] != "two" || len(shown[2]) != longest || shown[3] != "x" {
		t.Errorf("shown are %d lines: %.40q", len(shown), shown)
	}
}
