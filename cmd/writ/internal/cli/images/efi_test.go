package images

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	stages "writ/efi/progress"
	"writ/runner"
	"writ/runner/member"
)

// A boot server recognizes the log lines of a runner on a machine, including their errors.
func TestABootServerUnderstandsTheLogOfARunner(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	for _, tt := range []struct {
		say  func()
		want stages.Report
	}{
		{func() { log.Info(runner.LogServing, "dc", "x") }, stages.Report{Stage: stages.StageJoined}},
		{func() { log.Warn(member.LogCannotJoin, "again", 5*time.Second, "err", `dial tcp: "no" route=to host`) }, stages.Report{Stage: stages.StageRunner, Text: `cannot join yet, tries again in 5s: dial tcp: "no" route=to host`, Failed: true}},
		{func() { log.Warn(member.LogCannotJoin, "again", time.Minute, "err", "refused") }, stages.Report{Stage: stages.StageRunner, Text: "cannot join yet, tries again in 1m0s: refused", Failed: true}},
		{func() { log.Warn(runner.LogNoQueue, "dc", "x", "err", "refused") }, stages.Report{Stage: stages.StageRunner, Text: "the node gets no work: refused", Failed: true}},
		{func() { log.Info(runner.LogQueue, "dc", "x") }, stages.Report{Stage: stages.StageJoined}},
		{func() { fmt.Fprintln(&said, "hint: make another one") }, stages.Report{Stage: stages.StageRunner, Failed: true}},
		{func() { fmt.Fprintln(&said, "error: the token is spent [TOKEN_SPENT]") }, stages.Report{Stage: stages.StageRunner, Text: "the token is spent [TOKEN_SPENT]", Failed: true}},
		{func() { log.Info("driver", "detail", "x msg=serving y") }, stages.Report{}},
		{func() { log.Info("the node has joined") }, stages.Report{}},
	} {
		said.Reset()
		tt.say()
		line := strings.TrimSuffix(said.String(), "\n")
		got, ok := meaningOf(line)
		// The hint is in the line after an error.
		if got.Failed && got.Next == "" && !strings.HasPrefix(line, "error: ") {
			t.Errorf("%s has no hint: %+v", line, got)
		}
		if got.Next = ""; ok != (tt.want.Stage != "") || ok && got != tt.want {
			t.Errorf("%s means %+v, %v", line, got, ok)
		}
	}
}
