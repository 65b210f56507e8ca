package boot

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
)

func TestAMachineThatWaitsShowsHowToApproveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		c := &consoles{since: func() time.Duration { return 0 }}
		c.add(&screen)
		now := Admission{}
		asked := 0
		a := &approval{consoles: c, admission: func() Admission { asked++; return now }}
		says := func(line string, silent time.Duration) {
			c.line(line)
			a.look()
			time.Sleep(silent) // of the test's clock
			synctest.Wait()
		}
		says("cannot join yet", time.Minute)
		now = Admission{writ.AdmissionPending, "n1", "SHA256:abc"}
		says("waiting", quiet/2)
		says("driver", time.Minute)
		says("cannot ask", time.Minute)
		now.State = writ.AdmissionApproved
		says("serving", time.Minute)
		before := asked
		says("took a job", time.Minute)
		if asked != before {
			t.Error("it asks after the decision")
		}
		c.close(time.Minute)
		text := strings.ReplaceAll(screen.String(), "\r\n", "\n")
		pages := strings.Split(text, "\n  This machine waits")
		if len(pages) != 3 || pages[0] != "cannot join yet\nwaiting\ndriver\n" || !strings.Contains(pages[1], "\n    writ node approve n1 SHA256:abc\n") ||
			!strings.HasSuffix(pages[1], "\n\ncannot ask\n") || !strings.HasSuffix(pages[2], "serving\nwrit [   0.00] approve  the datacenter has approved this node\ntook a job\n") {
			t.Errorf("the screen shows\n%s", text)
		}
	})
}

func TestNoPageIsShownAfterTheEndOfTheRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		c := &consoles{since: func() time.Duration { return 0 }}
		c.add(&screen)
		a := &approval{consoles: c, admission: func() Admission { return Admission{writ.AdmissionPending, "n1", "SHA256:abc"} }}
		a.look()
		a.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		c.close(time.Minute)
		if screen.Len() != 0 {
			t.Errorf("the screen shows %q", screen.String())
		}
	})
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
