package runnerd

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"writ/supervisor/nodes"
)

// The stored log of a runner contains no passwords and tokens, and neither does its final error. The level of the
// terminal log does not filter the stored one.
func TestTheKeptLogOfARunnerHasNoSecret(t *testing.T) {
	t.Parallel()
	log, kept, end, err := keepLog(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const token = "writ2.abcdefgh234567ab.canary-canary-canary"
	log.With("redis", "redis://n1:canary@10.0.0.1/0").Info("connected", "err", errors.New("refused: "+token))
	log.Debug("what is not kept")
	end(errors.New("it cannot go on with " + token))
	var all []string
	for _, l := range kept.Read(nodes.LogQuery{}).Lines {
		all = append(all, l.Source+" "+l.Level+" "+l.Text)
	}
	text := strings.Join(all, "\n")
	if len(all) != 2 || !strings.HasPrefix(all[0], "runner info msg=connected redis=") || !strings.HasPrefix(all[1], `runner error msg="the runner ends" err=`) {
		t.Errorf("kept is\n%s", text)
	}
	if strings.Contains(text, "canary") {
		t.Errorf("kept is a secret:\n%s", text)
	}
}
