package supervisor_test

import (
	"slices"
	"testing"

	"writ"
)

// A run that fails because of a failed dependency reports the code, number and position of the call that failed first,
// because the author has to change that line. The first entry of the trace is the position of the call that needed it.
// Each call keeps its own code, which the script may read.
//
// Promise: Failures: A run that ends because of a dependent call names the call that failed first, with its code.
// How: The supervisor follows the calls to the first failure before it signs the summary; the summary, lists,
// webhooks and the page of failures agree.
func TestRunFailsByOriginalCall(t *testing.T) {
	const head = `volume := import("volume")
machine := import("machine")
disk := volume.create("v", {size_gib: 1})
m := machine.create("m", {cpus: 1, memory_mib: 512, disks: [disk]})
up := machine.start(m)
`
	for name, tt := range map[string]struct{ script, needed, needs string }{
		"ItReadsTheResultOfTheLastOne": {head + "up.address\n", "test.tengo:6:4", "machine.start m"},
		"ItHasReadTheErrorOfTheCause":  {head + "disk.err\n", "test.tengo:4:6", "machine.create m"},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", func(n *testNode) { n.act = failing("v", writ.CodeQuotaExceeded) })
				run, calls := s.wantState(s.submit(tt.script), writ.RunFailed)
				f := run.Failure
				want := tt.needs + " needs volume.create v, which did not succeed: " + calls[0].Error.Message
				if f.Code != writ.CodeQuotaExceeded || f.Seq != 1 || f.Message != want || f.Hint != calls[0].Error.Hint ||
					f.Position != "test.tengo:3:9" || !slices.Equal(f.Trace, []string{tt.needed}) {
					t.Errorf("failure = %+v", f)
				}
				if calls[2].Error.Code != writ.CodeDependencyFailed {
					t.Errorf("error of call 3 = %+v", calls[2].Error)
				}
			})
		})
	}
}
