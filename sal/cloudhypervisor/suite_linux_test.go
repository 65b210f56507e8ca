package cloudhypervisor

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/saltest"
)

// with returns a copy of base with changes, given as keys and values.
func with(base map[string]any, changes ...any) map[string]any {
	m := maps.Clone(base)
	for i := 0; i+1 < len(changes); i += 2 {
		m[changes[i].(string)] = changes[i+1]
	}
	return m
}

var (
	data   = map[string]any{"volume": saltest.RefTo(writ.KindVolume, "data")}
	before = map[string]any{"snapshot": "before"}
)

// says appends to the console of the silent subject, because its guest cannot be asked to write.
func says(t testing.TB, host, text string) {
	t.Helper()
	d := open(host, "", nil)
	f, err := os.OpenFile(filepath.Join(d.dirOf(machine("subject")), consoleName), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The steps are two suites: each crash is tested on a fresh machine that was brought to its moment, and stopping and
// starting a machine takes two processes.
//
// Promise: Limits and shares: A damaged record affects only its own resource, which reports `RECORD_DAMAGED` with the
// file and can be deleted completely.
// How: Records name their resource at their beginning; deletion uses names and ids that need no record; until then a
// volume that it may use counts as in use.
// Subtest: .*GoesOnBesideADamagedRecord
// Also: sal/containerd.TestConformance/.*GoesOnBesideADamagedRecord,
// sal/herodb.TestConformance/.*GoesOnBesideADamagedRecord, sal/image.TestConformance/.*GoesOnBesideADamagedRecord,
// sal/netdev.TestConformance/.*GoesOnBesideADamagedRecord,
// sal/simulated.TestConformance/.*GoesOnBesideADamagedRecord,
// sal/volume.TestConformance/.*GoesOnBesideADamagedRecord, TestRecordUnderAnotherNameIsDamaged,
// TestTruncatedRecordIsReported, TestDamagedRecordBlocksVolumes, TestPortsOfADamagedRecordAreReleased
//
// Promise: Networks and containers: A log or console reader gets every line once and in order, or a notice about
// missing lines, across rotations and restarts.
// How: Every byte has a number, and files are named by theirs.
// Subtest: .*TellsWhatWasWritten
// Also: sal/containerd.TestConformance/.*TellsWhatWasWritten, sal/herodb.TestConformance/.*TellsWhatWasWritten,
// sal/image.TestConformance/.*TellsWhatWasWritten, sal/netdev.TestConformance/.*TellsWhatWasWritten,
// sal/simulated.TestConformance/.*TellsWhatWasWritten, sal/volume.TestConformance/.*TellsWhatWasWritten,
// TestLogIsReadFromAPosition, TestLostPartsOfALogAreReported, TestALogIsReadWhileItIsPutAside,
// TestAContainerOutlivesDaemonAndRunner, TestConsoleKeepsBoundedHistory, TestScripts/logs
//
// Promise: Machines and the overlay: A runner killed at any step of a machine leaves a state that the next call
// completes or removes.
// How: The record precedes the process; the process is found by its arguments; a deleted machine leaves no process,
// tap or file.
func TestConformance(t *testing.T) {
	spec := map[string]any{
		"cpus": int64(1), "memory_mib": int64(256),
		"kernel": saltest.RefTo(writ.KindImage, "linux"), "initramfs": "initramfs",
		"cloud_init": "#cloud-config\n", "env": map[string]any{"A": "b"},
	}
	suites := map[string]saltest.Suite{
		"what is in it": {
			Make:      saltest.Step{Operation: "machine.create", Args: spec},
			Immutable: with(spec, "cmdline", "quiet"),
			Steps: []saltest.Step{
				{Operation: "machine.attach", Args: data},
				{Operation: "machine.snapshot", Args: before},
				{Operation: "machine.detach", Args: data},
				{Operation: "machine.console"},
				{Operation: "machine.restore", Args: before},
				{Operation: "machine.delete_snapshot", Args: before},
			},
		},
		"what it does": {
			Make:    saltest.Step{Operation: "machine.create", Args: spec},
			Mutable: with(spec, "cpus", int64(2), "memory_mib", int64(512)),
			Steps: []saltest.Step{
				{Operation: "machine.pause"},
				{Operation: "machine.resume"},
				{Operation: "machine.resize", Args: map[string]any{"cpus": int64(4)}},
				{Operation: "machine.stop"},
				{Operation: "machine.start"},
			},
			Log: saltest.Log{
				Operation: "machine.console",
				Write:     func(t testing.TB, host, text string) { says(t, host, text) },
				Flood: func(t testing.TB, host string) {
					says(t, host, strings.Repeat("water and more water\n", maxConsole/20))
					open(host, "", nil).trimAll()
				},
			},
		},
	}
	forEachSetup(t, func(t *testing.T, on setup) {
		for name, suite := range suites {
			t.Run(name, func(t *testing.T) {
				suite.Steps = on.able(suite.Steps)
				suite.Prepare, suite.Clear, suite.Traces = on.prepare, clear, traces
				suite.Handed = []string{"machine/machines/*/" + seedName}
				suite.Sparse = true
				if on.real {
					suite.Hosts = saltest.OnDisk{} // it writes the whole memory of its guests
				}
				suite.Open = func(_ testing.TB, host string, step func(string)) sal.Driver {
					return open(host, on.program, func(name string) {
						// Package sal tests these steps; here each would cost several processes.
						if !slices.Contains([]string{"rename record", "sync records", "set the mode for the user", "reset the mode"}, name) {
							step(name)
						}
					})
				}
				saltest.Run(t, suite)
			})
		}
	})
}

// able returns the steps that the guests of a setup support.
func (s setup) able(steps []saltest.Step) (able []saltest.Step) {
	for _, step := range steps {
		switch operation := step.Operation; {
		case s.lame && operation == "machine.detach", s.forgets && strings.Contains("machine.snapshot machine.restore machine.delete_snapshot", operation):
			continue
		case s.lame && operation == "machine.stop":
			step.Args = atOnce
		}
		able = append(able, step)
	}
	return able
}
