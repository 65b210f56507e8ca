package supervisor_test

import (
	"testing"

	"writ"
)

// A run that ends because of a call which needed a failed one has the code and the number of the failed one, which say what to do. Its position is where
// the script could not go on. A call keeps its own code, which the script may read.
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
	for name, tt := range map[string]struct{ script, position, needs string }{
		"ItReadsTheResultOfTheLastOne": {head + "up.address\n", "test.tengo:6:4", "machine.start m"},
		"ItHasReadTheErrorOfTheCause":  {head + "disk.err\n", "test.tengo:4:6", "machine.create m"},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", func(n *testNode) { n.act = failing("v", writ.CodeQuotaExceeded) })
				run, calls := s.wantState(s.submit(tt.script), writ.RunFailed)
				f := run.Failure
				want := tt.needs + " needs volume.create v, which did not succeed: " + calls[0].Error.Message
				if f.Code != writ.CodeQuotaExceeded || f.Seq != 1 || f.Message != want || f.Hint != calls[0].Error.Hint || f.Position != tt.position {
					t.Errorf("the run ends with %+v", f)
				}
				if calls[2].Error.Code != writ.CodeDependencyFailed {
					t.Errorf("call 3 ends with %+v", calls[2].Error)
				}
			})
		})
	}
}
