package boot

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"writ"
)

func TestAMachineThatWaitsShowsHowToApproveIt(t *testing.T) {
	var screen bytes.Buffer
	c := &consoles{since: func() time.Duration { return 0 }}
	c.add(&screen)
	now := Admission{}
	asked := 0
	a := &approval{consoles: c, admission: func() Admission { asked++; return now }}
	a.look() // it has not reached its supervisor
	now = Admission{writ.AdmissionPending, "n1", "SHA256:abc"}
	a.look()
	a.look() // another line of the runner
	now.State = writ.AdmissionApproved
	a.look()
	before := asked
	a.look()
	if asked != before {
		t.Error("it asks after the decision")
	}
	c.close(time.Minute)
	text := screen.String()
	const command = "\r\n    writ node approve n1 SHA256:abc\r\n"
	if strings.Count(text, command) != 1 || !strings.HasPrefix(text, "\r\n  This machine waits") || !strings.HasSuffix(text, "has approved this node\r\n") {
		t.Errorf("the screen shows\n%s", text)
	}
}

func TestAMachineWithATokenShowsNoPage(t *testing.T) {
	var screen bytes.Buffer
	c := &consoles{since: func() time.Duration { return 0 }}
	c.add(&screen)
	a := &approval{consoles: c, admission: func() Admission { return Admission{writ.AdmissionApproved, "n1", "SHA256:abc"} }}
	a.look()
	(&approval{consoles: c}).look() // of a program that does not tell
	c.close(time.Minute)
	if screen.Len() != 0 {
		t.Errorf("the screen shows %q", screen.String())
	}
}
