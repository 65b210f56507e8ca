package supervisor_test

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
)

// Promise: Plans, scripts and manuals: A node reserves exactly the fraction of a CPU that a container asked for, and a
// refusal names the free and the needed amount.
func TestFractionsOfCPUsAreReserved(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", func(n *testNode) { n.capacity = writ.Capacity{CPUs: 1, MemoryMiB: 65536, DiskGiB: 100} })
		time.Sleep(3 * time.Second)
		used := func(want writ.Capacity) {
			t.Helper()
			err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
				l, err := tx.Load(n.id)
				if l.Reserved.CPU() != want.CPU() {
					t.Errorf("reserved %s CPUs, want %s", l.Reserved.CPU(), want.CPU())
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		create := func(name, cpus string) string {
			return `import("container").create("` + name + `", {image: "i", cpus: ` + cpus + `, memory_mib: 16})`
		}
		s.wantState(s.submit(`import("image").fetch("i", {url: "https://images.example/i", sha256: "5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e", format: "oci"})`), writ.RunSucceeded)
		s.wantState(s.submit(create("a", "0.35")), writ.RunSucceeded)
		s.wantState(s.submit(create("b", "0.1 + 0.25")), writ.RunSucceeded)
		used(writ.Capacity{Hundredths: 70})
		run, _ := s.wantState(s.submit(create("c", "0.31")), writ.RunFailed)
		if want := "n1 has 0.3 CPUs free, 0.31 needed"; run.Failure.Error.Code != writ.CodeNoCapacity || run.Failure.Error.Message != want {
			t.Errorf("failure = %+v, want %q", run.Failure.Error, want)
		}
		s.wantState(s.submit(create("c", "0.3")), writ.RunSucceeded)
		used(writ.Capacity{CPUs: 1})
		run, _ = s.wantState(s.submit(create("a", "0.36")), writ.RunFailed)
		if want := "n1 has 0 CPUs free, 0.01 more needed"; run.Failure.Error.Message != want {
			t.Errorf("failure = %+v, want %q", run.Failure.Error, want)
		}
		// A different node does not help an existing resource.
		if want := "the container a stays on its node: request less"; !strings.HasPrefix(run.Failure.Error.Hint, want) {
			t.Errorf("hint = %q, want the prefix %q", run.Failure.Error.Hint, want)
		}
		run, _ = s.wantState(s.submit(create("a", "1.5")), writ.RunFailed)
		if want := "n1 is too small: has 1 CPU in all, 1.5 needed"; run.Failure.Error.Message != want {
			t.Errorf("failure = %+v, want %q", run.Failure.Error, want)
		}
		s.wantState(s.submit(create("a", "0.2")), writ.RunSucceeded)
		used(writ.Capacity{Hundredths: 85})
		s.wantState(s.submit(`import("container").delete("b")`), writ.RunSucceeded)
		used(writ.Capacity{Hundredths: 50})
	})
}
