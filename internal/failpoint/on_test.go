//go:build failpoints

package failpoint

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// arm gives this process a plan for the time of a test.
func arm(t *testing.T, text string) {
	t.Helper()
	all, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	before := plan
	plan = all
	t.Cleanup(func() { plan = before })
}

func TestAPlanThatCannotBeReadIsRefused(t *testing.T) {
	for _, text := range []string{"node/finished", "node/finish:after", "node/finished:later", "queue/job:fail", "node/finished:after:0", "step/volume/x:torn"} {
		if _, err := parse(text); err == nil {
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
