package boot

import (
	"testing"
	"time"

	"writ/efi/progress"
)

// Promise: Machines from an image: After the same failure twice in a row the machine retries rarely, does not
// restart, and shows the reason, time and next step.
// How: The stages and the ends of the runner are compared without their numbers.
// Also: TestHeldRunnerIsStartedRarely, TestAStageThatFailsTwiceIsHeldOnThePageUntilItWorks,
// TestStageThatNeedsAPersonIsHeldAtOnce, TestARunnerThatEndsTwiceWithOneErrorIsHeld,
// TestARunnerThatCannotBeStartedIsHeld, TestFullDiskIsReportedAmongOtherFaults,
// TestAStageFailsSinceItsFirstFailure, TestRefusedCardShowsTheReasonWhileItRetries,
// TestFailedJoinIsRetriedRarely.
func TestTheSameFailureTwiceInARowIsHeld(t *testing.T) {
	failing := func(stage, text string) progress.Report {
		return progress.Report{Stage: stage, Text: text, Next: "mend it", Failed: true}
	}
	works := func(stage string) progress.Report { return progress.Report{Stage: stage} }
	for name, tt := range map[string]struct {
		reports []progress.Report
		held    bool
	}{
		"once":                       {[]progress.Report{failing("data", "no disk")}, false},
		"twice":                      {[]progress.Report{failing("data", "no disk"), failing("data", "no disk")}, true},
		"with another number":        {[]progress.Report{failing("runner", "exit code 1 at 5:02"), failing("runner", "exit code 1 at 5:03")}, true},
		"for another reason":         {[]progress.Report{failing("data", "no disk"), failing("data", "two disks")}, false},
		"in turns":                   {[]progress.Report{failing("data", "a"), failing("data", "b"), failing("data", "a")}, false},
		"at another stage":           {[]progress.Report{failing("data", "full"), failing("runner", "full")}, false},
		"after it worked":            {[]progress.Report{failing("data", "no disk"), works("data"), failing("data", "no disk")}, false},
		"after the node served":      {[]progress.Report{failing("runner", "x"), works(progress.StageJoined), failing("runner", "x")}, false},
		"while another stage works":  {[]progress.Report{failing("clock", "x"), works("network"), failing("clock", "x")}, true},
		"once, and for good":         {[]progress.Report{{Stage: "data", Text: "of others", Failed: true, Held: true}}, true},
		"held, and then it works":    {[]progress.Report{failing("data", "x"), failing("data", "x"), works("data")}, false},
		"held, and another failure":  {[]progress.Report{failing("data", "x"), failing("data", "x"), failing("data", "y")}, false},
		"held, and the same failure": {[]progress.Report{failing("data", "x"), failing("data", "x"), failing("data", "x")}, true},
	} {
		var h hold
		for i, r := range tt.reports {
			if r.Failed {
				h.failed(r, "soon", time.Duration(i)*time.Second)
			} else {
				h.over(r)
			}
		}
		if h.held() != tt.held {
			t.Errorf("%s: held is %v", name, h.held())
		}
	}
}

// A stage that fails for two reasons in a row has not worked since the first failure.
func TestAStageFailsSinceItsFirstFailure(t *testing.T) {
	var h hold
	for i, text := range []string{"asks for an address", "asks for an address", "no answer", "no answer"} {
		h.failed(progress.Report{Stage: "network", Text: text, Failed: true}, "soon", time.Duration(i+5)*time.Second)
	}
	if h.since != 5*time.Second || h.times != 2 {
		t.Errorf("it fails since %s, %d times in the same way", h.since, h.times)
	}
}

func TestHeldRunnerIsStartedRarely(t *testing.T) {
	wait := time.Duration(0)
	for _, tt := range []struct {
		held bool
		want time.Duration
	}{{false, time.Second}, {true, heldPause}, {true, heldPause}, {false, restartMost}} {
		if wait = pauseOfRunner(wait, time.Second, tt.held); wait != tt.want {
			t.Errorf("held %v: it starts again in %s, want %s", tt.held, wait, tt.want)
		}
	}
}
