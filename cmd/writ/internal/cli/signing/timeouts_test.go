package signing

import (
	"testing"
	"time"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/scripts/check"
)

// Promise: Operation: A script timeout beyond the deadline of its run is reported before signing.
// How: The check reads the literal timeouts of the script.
func TestTimeoutBeyondDeadlineIsNamed(t *testing.T) {
	t.Parallel()
	bundle := scripts.Bundle{Main: scripts.Source{Name: "web.tengo", Text: []byte(`volume := import("volume")
volume.create("a", {size_gib: 1}, {timeout: "1h"})
volume.create("b", {size_gib: 1}, {timeout: "90m"})
volume.create("c", {size_gib: 1}, {timeout: "2h"})
volume.create("d", {size_gib: 1})
`)}}
	report := check.Check(bundle)
	const first = "volume.create at web.tengo:3:35 has the timeout 1h30m"
	for deadline, want := range map[time.Duration]string{
		time.Hour:        "warning: " + first + ", like 1 more call, and the run ends after 1h0m0s: use --deadline 2h0m0s or more, or a shorter timeout\n",
		90 * time.Minute: "warning: volume.create at web.tengo:4:35 has the timeout 2h, and the run ends after 1h30m0s: use --deadline 2h0m0s or more, or a shorter timeout\n",
		2 * time.Hour:    "",
	} {
		said := new(testenv.Log)
		env := &cli.Env{Terminal: &terminal.Terminal{Notices: terminal.Notices{Err: said}}}
		WarnOfTimeouts(env, report, deadline)
		if got := said.String(); got != want {
			t.Errorf("with the deadline %s:\n%swant\n%s", deadline, got, want)
		}
	}
	if got := NeededDeadline(report); got != first+"; without --deadline 2h0m0s or more, its run ends after 1h0m0s" {
		t.Errorf("check says %q", got)
	}
}
