package boot

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"writ"
	"writ/efi/progress"
)

// screen collects output until the test reads it.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

// paged is a machine with a screen.
type paged struct {
	*status
	t        *testing.T
	screen   screen
	reported []string

	mu    sync.Mutex // pages are shown concurrently with the test
	place Admission
	asked int
}

// seen returns the runner's state in the datacenter.
func (p *paged) seen() Admission {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return p.place
}

// reporter returns a reporter for the page.
func (p *paged) reporter() *reporter { return &reporter{p.consoles, p.status} }

// is sets the decision of the datacenter.
func (p *paged) is(now Admission) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.place = now
}

// looked returns how often the decision was polled.
func (p *paged) looked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// onScreen runs a test with a screen and virtual time.
func onScreen(t *testing.T, test func(p *paged)) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &paged{t: t}
		c := &consoles{since: func() time.Duration { return time.Since(began) }}
		c.add(&p.screen)
		p.status = &status{
			consoles: c, version: "v1.0.0, image 0a1b", addresses: func() string { return "eth0 (52:54:00:77:00:50) has 10.77.0.50/24" },
			node: nodeState{admission: p.seen},
		}
		c.told = func(r progress.Report) {
			p.note(r)
			p.reported = append(p.reported, r.Stage)
		}
		defer func() {
			p.off()
			c.close(time.Minute)
		}()
		test(p)
	})
}

// says makes the runner write a line and then stay silent.
func (p *paged) says(line string, silent time.Duration, meaning ...progress.Report) {
	p.line(line)
	if len(meaning) > 0 {
		p.look(meaning[0], true)
	} else {
		p.look(progress.Report{}, false)
	}
	p.wait(silent)
}

func (p *paged) wait(silent time.Duration) {
	time.Sleep(silent) // virtual time
	synctest.Wait()
}

// shows returns the output since the last call.
func (p *paged) shows() string {
	synctest.Wait()
	return strings.ReplaceAll(p.screen.take(), "\r\n", "\n")
}

// want fails the test unless the output contains these texts in order, and exactly pages pages.
func (p *paged) want(pages int, texts ...string) {
	p.t.Helper()
	shown := p.shows()
	for line := range strings.Lines(shown) {
		if strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "  kernel: ") && utf8.RuneCountInString(line)-1 > columns {
			p.t.Errorf("this line of a page does not fit on a screen: %q", line)
		}
	}
	if got := strings.Count(shown, "  version      v1.0.0, image 0a1b\n"); got != pages {
		p.t.Errorf("%d pages, want %d:\n%s", got, pages, shown)
	}
	rest := shown
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			p.t.Fatalf("%q is missing or out of order:\n%s", text, shown)
		}
		rest = after
	}
}

var (
	joins  = progress.Report{Stage: progress.StageJoined}
	cannot = progress.Report{Stage: progress.StageRunner, Text: "cannot join yet: connection refused", Next: "look at the supervisor", Failed: true}
)

// Promise: Machines from an image: A machine without a token gets no work before an admin approved its key or its
// serial number in a batch.
// How: It registers as pending; the console shows name, fingerprint and the decision.
// Also: TestWithoutTokenANodeMustKnowItsCluster, TestAMachineStartsFromAnImageAsANode.
func TestAMachineThatWaitsShowsHowToApproveIt(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.begin()
		p.says("cannot join yet", time.Minute)
		p.want(0, "cannot join yet\n")
		p.is(Admission{State: writ.AdmissionPending, Name: "n1", Fingerprint: "SHA256:abc", Datacenter: "dc1"})
		p.says("waiting", quiet/2)
		p.says("driver", 10*time.Minute)
		p.want(1, "waiting\ndriver\n", "\n  This machine waits for approval as a node.\n\n    name         n1\n    datacenter   dc1\n"+
			"    addresses    eth0 (52:54:00:77:00:50) has 10.77.0.50/24\n    fingerprint  SHA256:abc\n    version      v1.0.0, image 0a1b\n"+
			"    waits        since 60 s after its start: no limit, an admin decides\n\n",
			"\n    writ node approve n1 SHA256:abc\n")
		p.says("cannot ask", time.Minute)
		p.want(1, "cannot ask\n", "writ node approve n1 SHA256:abc\n")
		p.is(Admission{State: writ.AdmissionApproved, Name: "n1", Fingerprint: "SHA256:abc", Datacenter: "dc1"})
		p.says("driver", time.Minute)
		p.want(0, "approve  the datacenter has approved this node\n")
		p.says("serving", time.Minute, joins)
		p.want(1, "serving\n", "This machine serves as a node.\n", "writ node show n1\n")
		if !slices.Equal(p.reported, []string{progress.StageWaits, progress.StageApprove}) {
			t.Errorf("reports = %q", p.reported)
		}
	})
}

// A command that exceeds the screen width is still valid in a shell.
func TestTheCommandOfAnApprovalFitsOnAScreen(t *testing.T) {
	onScreen(t, func(p *paged) {
		print := "SHA256:" + strings.Repeat("x", 43)
		p.begin()
		p.is(Admission{State: writ.AdmissionPending, Name: "node-525400770050", Fingerprint: print})
		p.says("waiting", quiet)
		p.want(1, "\n    writ node approve node-525400770050 \\\n      "+print+"\n")
		p.is(Admission{State: writ.AdmissionPending, Name: "n1", Fingerprint: print})
		p.says("waiting", quiet)
		p.want(1, "\n    writ node approve n1 "+print+"\n")
	})
}

// Promise: Machines from an image: The console of a machine from an image ends with a page of 80 columns that shows
// its name, its fault, and the next step.
// How: One page covers all conditions; a new page appears after a second of quiet, an unchanged one after a minute.
// Also: TestMachineThatCannotJoinShowsReasonAndRemedy, TestRefusedMachineShowsIt,
// TestNoPageIsShownOnceTheMachineIsTurnedOff, TestPicturesOfTheConsole, TestAMachineStartsFromAnImageAsANode.
func TestServingMachineShowsItsPageWhenTheConsoleIsQuiet(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.is(Admission{State: writ.AdmissionApproved, Name: "n1", Fingerprint: "SHA256:abc"})
		p.begin()
		p.says("serving", quiet, joins)
		p.want(1, "serving\n", "This machine serves as a node.\n")
		looked := p.looked()
		for range 20 {
			p.says("took a job", calm/2)
		}
		p.want(0, "took a job\n")
		if p.looked() != looked {
			t.Error("the decision is requested after each line")
		}
		p.wait(time.Hour)
		p.want(1, "This machine serves as a node.\n")
	})
}

func TestMachineThatCannotJoinShowsReasonAndRemedy(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.begin()
		p.says("level=WARN cannot join", 5*time.Second, cannot)
		p.want(1, "This machine cannot join its datacenter yet.\n", "    trouble      cannot join yet: connection refused\n    since        0 s after its start, for 1 s\n"+
			"    next         look at the supervisor\n", "It tries again by itself.")
		for range 4 {
			p.says("level=WARN cannot join", 5*time.Second, cannot)
		}
		p.want(1, "This machine is held: it failed twice in the same way.\n", "    trouble      cannot join yet: connection refused\n    since        0 s after its start, for 6 s\n",
			"It retries by itself.")
		p.says("error: another one", 0, progress.Report{Stage: progress.StageRunner, Text: "another one", Failed: true})
		p.end("ended with exit code 1")
		_ = awaitRetry(p.t.Context(), p.status, progress.Limit{Most: quiet, Then: "the runner starts again"})
		synctest.Wait()
		p.want(1, "The runner of this machine has ended.\n", "    trouble      ended with exit code 1: another one\n    since        0 s after its start, for 26 s\n"+
			"    goes on      1 s of 1 s, then the runner starts again\n", "It is started again by itself.")
		p.begin()
		p.is(Admission{State: writ.AdmissionApproved, Name: "n1"})
		p.says("serving", quiet, joins)
		p.want(1, "This machine serves as a node.\n")
		if p.node.trouble() != "" {
			t.Errorf("it serves, and the trouble is %q", p.node.trouble())
		}
	})
}

func TestUncorrectedClockIsOnThePage(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.reporter().clockIs("not corrected: no answer")
		p.is(Admission{State: writ.AdmissionApproved, Name: "n1"})
		p.begin()
		p.says("serving", quiet, joins)
		p.want(1, "    clock        not corrected: no answer\n")
		p.reporter().clockIs("")
		p.wait(quiet)
		if shown := p.shows(); !strings.Contains(shown, "This machine serves as a node.\n") || strings.Contains(shown, "clock") {
			t.Errorf("when it is corrected the screen shows\n%s", shown)
		}
	})
}

func TestRefusedMachineShowsIt(t *testing.T) {
	for _, state := range []writ.Admission{writ.AdmissionRejected, writ.AdmissionRemoved} {
		onScreen(t, func(p *paged) {
			p.begin()
			p.is(Admission{State: state, Name: "n1"})
			p.end("ended with exit code 15")
			p.wait(time.Minute)
			p.want(1, "The datacenter has "+string(state)+" this node.\n", "give it another token")
		})
	}
}

func TestNoPageIsShownOnceTheMachineIsTurnedOff(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.Stage("start", "writ")
		p.begin()
		p.is(Admission{State: writ.AdmissionPending, Name: "n1", Fingerprint: "SHA256:abc"})
		p.look(progress.Report{}, false)
		p.off()
		p.end("ended")
		p.look(progress.Report{}, false)
		p.shows()
		p.wait(time.Hour)
		p.want(0)
	})
}

func TestAProgramThatDoesNotTellHasNoPage(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.node.admission = nil
		p.begin()
		p.says("serving", time.Hour, joins)
		p.end("ended")
		p.wait(time.Hour)
		p.want(0)
		if p.reporter().NodeOnDisk() != "" {
			t.Errorf("it has the name %q", p.reporter().NodeOnDisk())
		}
	})
}

func TestStagesOfAStartAreShownAgainWithTheirAge(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.Stage("start", "writ v1.0.0")
		p.wait(2 * time.Second)
		p.Fail("modules", writ.Errorf(writ.CodeUsage, "no module"))
		p.wait(27 * time.Second)
		for range 3 {
			p.Stage("network", "no address yet: \x1b[2Jeth0 has no carrier")
		}
		p.wait(2 * time.Second)
		p.want(0, "This machine is starting and is not a node yet.\n\n       stage    from s  for s\n  done start       0.0    0.0  writ v1.0.0\n  now  modules     0.0    3.0  error: no module\n",
			"network  no address yet")
		p.wait(time.Minute)
		if again := strings.Count(p.shows(), "This machine is starting"); again != 2 {
			t.Errorf("within another minute the stages are shown %d times", again)
		}
		p.begin()
		p.Stage("network", "a lease was renewed")
		p.wait(time.Minute)
		p.want(0, "  fail modules                 error: no module\n  done network     0.0   29.0  no address yet:  [2Jeth0 has no carrier\n"+
			"  now  runner     29.0   65.0  asks its supervisor to join: no limit, it asks\n                               until the supervisor answers\n")
		p.says("serving", time.Second, joins)
		p.want(1, "    started      in 151.0 s: start 0.0, network 29.0, runner 122.0, joined 0.0\n")
	})
}
