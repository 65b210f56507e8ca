package supervisor_test

import (
	"strings"
	"testing"
	"time"

	"writ"
)

// Whoever reads a result between calls that go together hears at which line that was.
func TestReadSplittingGroupIsNamed(t *testing.T) {
	const modules = "volume := import(\"volume\")\nmachine := import(\"machine\")\nrun := import(\"run\")\n"
	for name, tt := range map[string]struct{ script, at string }{
		"in a loop": {modules + `disks := []
for i := 0; i < 2; i++ {
	disk := volume.create("data-" + i, {size_gib: 10})
	run.log(disk.uid)
	disks = append(disks, disk)
}
machine.create("db", {cpus: 1, memory_mib: 64, disks: disks})
`, ".tengo:7:"},
		"after both": {modules + `a := volume.create("a", {size_gib: 1})
b := volume.create("b", {size_gib: 1})
run.log(b.uid)
machine.create("db", {cpus: 1, memory_mib: 64, disks: [a, b]})
`, ".tengo:6:"},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", slowly(time.Second)) // passes follow each other in no virtual time otherwise, and cannot be told apart
				s.join("n2", slowly(time.Second))
				time.Sleep(2 * time.Second) // both beat
				run, _ := s.wantState(s.submit(tt.script), writ.RunFailed)
				if f := run.Failure; f.Code != writ.CodeResourceConflict || !strings.Contains(f.Hint, tt.at) {
					t.Errorf("failure = %+v, want one that names %s", f, tt.at)
				}
			})
		})
	}
}
