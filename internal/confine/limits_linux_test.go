package confine

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A limit below the unit of shells still limits.
func TestSmallLimitsAreRoundedUp(t *testing.T) {
	cmd := exec.Command("true")
	Limits{Memory: 1, FileSize: 1, CPU: time.Millisecond, Files: 1}.wrap(cmd, 0)
	for _, want := range []string{"ulimit -d 1 ", "ulimit -f 1 ", "ulimit -t 1 ", "ulimit -n 1 "} {
		if !strings.Contains(cmd.Args[2], want) {
			t.Errorf("%q is not in %q", want, cmd.Args[2])
		}
	}
}
