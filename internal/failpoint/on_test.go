//go:build failpoints

package failpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// arm sets the plan of this process during a test.
func arm(t *testing.T, text string) {
	t.Helper()
	all, _, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	before := plan
	plan = all
	t.Cleanup(func() { plan = before })
}

func TestAPlanThatCannotBeReadIsRefused(t *testing.T) {
	for _, text := range []string{"node/finished", "node/finish:after", "node/finished:later", "queue/job:fail", "node/finished:after:0", "step/volume/x:torn"} {
		if _, _, err := parse(text); err == nil {
			t.Errorf("%q is taken for a plan", text)
		}
	}
}

func TestAFailureIsThatOfOneChangeHoweverOftenItIsTried(t *testing.T) {
	arm(t, "node/finished:fail:2")
	first, second := At(t.Context(), JobFinished), At(t.Context(), JobFinished)
	for i, step := range []struct {
		err  error
		want bool
	}{{Amid(first), false}, {Amid(second), true}, {Amid(first), false}, {Amid(second), true}, {Amid(t.Context()), false}} {
		if errors.Is(step.err, syscall.ENOSPC) != step.want {
			t.Errorf("step %d: %v", i, step.err)
		}
	}
}

func TestAnUnsentFrameIsTornOnTheNextSend(t *testing.T) {
	arm(t, "queue/report:torn")
	for attempt := range 2 { // the connection fails, so no bytes are sent
		ReportSent.Begin()
		if tearing.Load() == nil {
			t.Fatalf("attempt %d would not be torn", attempt+1)
		}
		ReportSent.End(errors.New("connection refused"))
		if tearing.Load() != nil {
			t.Fatalf("after attempt %d something else would be torn", attempt+1)
		}
	}
}

// isTearing reports whether the next bytes that this goroutine sends are cut.
func isTearing() bool {
	t := tearing.Load()
	return t != nil && t.goroutine == goroutine()
}

// TestTornMessageIsTriedAgain has two goroutines in the same place. The message of the first has no bytes.
func TestTornMessageIsTriedAgain(t *testing.T) {
	arm(t, "queue/report:torn")
	ReportSent.Begin()
	if !isTearing() {
		t.Error("the first message would not be torn")
	}
	second := make(chan bool)
	go func() {
		ReportSent.Begin()
		second <- isTearing()
	}()
	if <-second {
		t.Error("two messages would be torn")
	}
	ReportSent.End(nil) // another goroutine has sent it
	ReportSent.Begin()
	if !isTearing() {
		t.Error("no later message would be torn")
	}
	ReportSent.End(nil)
}

func TestFilesAndFramesHaveTheirPlaces(t *testing.T) {
	for name, want := range map[string]Point{"age.key.new": "file/age.key", "7.roster": "file/roster", "member.json": "file/member.json", "v123.json.tmp": "file/record", "x": ""} {
		if got := OfFile("/data/" + name); got != want {
			t.Errorf("%s is at %q, want %q", name, got, want)
		}
	}
	for frame, want := range map[string]Point{`{"type":"event","events":[]}`: "link/event", `{"type":"req","id":"1","verb":"submit"}`: "link/req-submit", `{"type":"ping"}`: ""} {
		if got := OfFrame([]byte(frame)); got != want {
			t.Errorf("%s is at %q, want %q", frame, got, want)
		}
	}
}

func TestAFileThatCannotBeWrittenIsHalfThere(t *testing.T) {
	arm(t, "file/age.key:fail")
	path := filepath.Join(t.TempDir(), "age.key")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := OfFile(path).Write(f, []byte("1234")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the disk is not full: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "12" {
		t.Errorf("the file has %q", text)
	}
}

func TestAProcessEndsOnceBeforeEveryStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps")
	_, noted, err := parse(Noted + ":" + path + ".noted")
	if err != nil {
		t.Fatal(err)
	}
	// Each iteration is a process that takes the same steps.
	for _, want := range []string{"make it 1", "make it 2", "name ab12cd 1", ""} {
		l, ended := &ledger{path: path}, ""
		if noted.fresh("make it") {
			t.Error("a process that only records has ended")
		}
		for _, step := range []string{"make it", "make it", "name ab12cd"} {
			if l.fresh(step) {
				ended = step
				break
			}
		}
		if (ended == "") != (want == "") || !strings.HasPrefix(want, ended) {
			t.Errorf("it ended before %q, want %q", ended, want)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "make it 1\nmake it 2\nname # 1\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if text, err := os.ReadFile(path + ".noted"); err != nil || !strings.HasPrefix(string(text), "make it 1\nmake it 2\n") {
		t.Errorf("noted is %q, %v", text, err)
	}
}
