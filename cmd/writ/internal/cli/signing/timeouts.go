package signing

import (
	"fmt"
	"time"

	"writ/cmd/writ/internal/cli"
	"writ/scripts/check"
)

// longTimeouts returns the calls of a script whose timeouts are longer than the deadline of its run, and the longest of
// these timeouts.
func longTimeouts(r check.Report, deadline time.Duration) (all []check.Timeout, longest time.Duration) {
	for _, t := range r.Timeouts {
		if t.Duration() > deadline {
			all, longest = append(all, t), max(longest, t.Duration())
		}
	}
	return all, longest
}

// WarnOfTimeouts warns of calls that the deadline of their run ends before their own timeout.
func WarnOfTimeouts(env *cli.Env, r check.Report, deadline time.Duration) {
	all, longest := longTimeouts(r, deadline)
	if len(all) == 0 {
		return
	}
	others := ""
	if len(all) > 1 {
		others = ", like " + cli.Count(len(all)-1, "more call")
	}
	env.WarnOnce("%s%s, and the run ends after %s: use --deadline %s or more, or a shorter timeout", all[0], others,
		deadline, longest)
}

// NeededDeadline names the deadline that a script needs, "" if the default is enough.
func NeededDeadline(r check.Report) string {
	all, longest := longTimeouts(r, DefaultDeadline)
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%s; without --deadline %s or more, its run ends after %s", all[0], longest, DefaultDeadline)
}
