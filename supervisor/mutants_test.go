package supervisor_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"writ/internal/test/gosource"
	"writ/internal/test/mutant"
	"writ/internal/test/testenv"
)

var (
	simMutant    = flag.String("mutant", ".", "regular expression of the mutants to test")
	directedOnly = flag.Bool("directed", false, "run only the directed tests of mutants, not the simulation")
)

// Each mutant is the program without one of its mechanisms. A simulation or directed test that passes with a mutant
// does not test that mechanism.
var mutants = []struct {
	name      string
	edits     []mutant.Edit
	directed  string // the test of this mechanism; "" if this package has none
	unnoticed string // why the simulation may pass
}{
	{
		name: "NodesObeyEarlierEpochs", directed: "TestLateJobOfOldSupervisorIsNotExecuted",
		edits:     []mutant.Edit{{In: "runner.jobs.handle", Node: mutant.If, Names: "Epoch", Becomes: mutant.Never}},
		unnoticed: "the key of a job prevents a second execution, whichever supervisor sends it",
	},
	{
		name:  "NodesForgetStartedJobs",
		edits: []mutant.Edit{{In: "runner.jobs.prepare", Node: mutant.Return, Names: "past", Becomes: "_ = $1; return nil, $2"}},
	},
	{
		name:  "NodesIgnoreTheirRestart",
		edits: []mutant.Edit{{In: "runner.jobs.notAgain", Node: mutant.Compare, Names: "Incarnation", Becomes: "$1 > $2"}},
	},
	{
		name: "ResourcesAreNotLocked", directed: "TestNextJobWaitsForOverdueDriver",
		edits:     []mutant.Edit{{In: "hosted.Lock.Wait", Node: mutant.Receive, Names: "held", Becomes: "default"}},
		unnoticed: "simulated hosts allow concurrent jobs",
	},
	{
		name: "MissingJobsAreNotDetected", directed: "TestJobMissingInBeatIsDeliveredAgain",
		edits: []mutant.Edit{{In: "watch.deliveries.miss", Node: mutant.If, Becomes: mutant.Never}},
	},
	{
		name: "ResultsAreNotAcknowledged", directed: "TestResultsAreAcknowledged",
		edits: []mutant.Edit{{In: "outbox.Outbox.acknowledge", Node: mutant.Call, Names: "append", Nth: 1, Becomes: "nil"}},
	},
	{
		name: "AnyResultIsAccepted", directed: "TestForgedResultsAreIgnored",
		edits:     []mutant.Edit{{In: "workflow.Advancer.reload", Node: mutant.Call, Names: "WasSent", Becomes: "true, nil"}},
		unnoticed: "no node in a simulation lies",
	},
	{
		name: "ResultsOfAnyAttemptAreAccepted", directed: "TestOldResultDoesNotAnswerResumedCall",
		edits: []mutant.Edit{{In: "workflow.receiver.answer", Node: mutant.Case, Names: "Attempt", Nth: 2, Becomes: mutant.Never}},
	},
	{
		name:      "CallsDoNotExpire",
		edits:     []mutant.Edit{{In: "watch.deadlines.endCalls", Node: mutant.If, Names: "endGrace", Becomes: mutant.Never}},
		unnoticed: "nodes end their calls, and the calls of a lost node fail",
	},
	{
		name: "LostNodesKeepTheirCalls", directed: "TestLostNodeEndsItsSentCalls",
		edits:     []mutant.Edit{{In: "watch.lostNodes.inform", Node: mutant.Call, Names: "post", Becomes: "_ = $1"}},
		unnoticed: "lost calls also end at their end-by time",
	},
	{
		name: "RemovalOfNodeWakesNoRuns", directed: "TestRunsDoNotWaitForRemovedNode",
		edits: []mutant.Edit{{In: "decision.Nodes.Decide", Node: mutant.Range, Becomes: "$0[:0]"}},
	},
	{
		name: "RemovedNodesKeepTheirCalls", directed: "TestRunsDoNotWaitForRemovedNode",
		edits: []mutant.Edit{{In: "workflow.receiver.receive", Node: mutant.Call, Names: "lostNow", Becomes: "$1"}},
	},
	{
		name: "NodesWithWrongClockGetWork", directed: "TestNodeWithWrongClockGetsNoNewWork",
		edits: []mutant.Edit{{In: "fleet.presence.fault", Node: mutant.Case, Names: "MaxSkew", Becomes: mutant.Never}},
	},
	{
		name: "OldSupervisorsMayWrite", directed: "TestResumedOldSupervisorCannotWrite",
		edits:     []mutant.Edit{{In: "journal.reign.mustReign", Node: mutant.If, Names: "last", Becomes: mutant.Never}},
		unnoticed: "an old supervisor runs for seconds, gets no requests, and nodes do not obey it",
	},
	{
		name: "QueuedJobsAreDeliveredAgain", directed: "TestQueuedJobsAreDeliveredOnce",
		edits:     []mutant.Edit{{In: "watch.deliveries.findMissing", Node: mutant.Compare, Names: "gone", Becomes: mutant.Never}},
		unnoticed: "a job that is delivered twice is executed once",
	},
	{
		name: "QueueOutageSilencesNodes", directed: "TestQueueOutageLosesNoNode",
		edits: []mutant.Edit{
			{In: "watch.listening.count", Node: mutant.Case, Names: "queueWorks", Becomes: mutant.Never},
			{In: "watch.listening.count", Node: mutant.Case, Names: "rounds", Becomes: mutant.Never},
		},
		unnoticed: "a run may fail because a node is lost",
	},
	{
		name: "SuspendedSupervisorBlamesNodes", directed: "TestSuspendedSupervisorLosesNoNode",
		edits:     []mutant.Edit{{In: "watch.listening.count", Node: mutant.Call, Names: "min", Becomes: "$1"}},
		unnoticed: "a run may fail because a node is lost",
	},
	{
		name: "BlockedCollectorBlamesNodes", directed: "TestLateScanIsNoSilence",
		edits:     []mutant.Edit{{In: "watch.listening.count", Node: mutant.Case, Names: "rounds", Becomes: mutant.Never}},
		unnoticed: "no journal in a simulation hangs",
	},
	{
		name: "NodesForgetCancelledRuns", directed: "TestEarlyCancelPreventsItsJob",
		edits:     []mutant.Edit{{In: "runner.desk.enter", Node: mutant.Call, Names: "Before", Becomes: mutant.Never}},
		unnoticed: "a simulation accepts all effects of a run before its end",
	},
	{
		name: "ResumeForgetsReadResults", directed: "TestResumeRepeatsOnlyFailedCalls",
		edits:     []mutant.Edit{{In: "workflow.resume", Node: mutant.Call, Names: "isHandled", Becomes: mutant.Never}},
		unnoticed: "the correct path of a simulated script is unknown",
	},
	{
		name: "EpochsFollowTheJournalOnly", directed: "TestRestoredJournalRepeatsNoJob",
		edits:     []mutant.Edit{{In: "journal.Journal.BeginEpoch", Node: mutant.Call, Names: "max", Becomes: "$1"}},
		unnoticed: "no journal is restored from a backup",
	},
	{
		name: "NewSupervisorIsNotAnnounced", directed: "TestNewSupervisorIsAnnouncedBeforeJobs",
		edits:     []mutant.Edit{{In: "supervisor.Supervisor.Run", Node: mutant.Call, Names: "Announce", Becomes: "_ = $1"}},
		unnoticed: "nodes also receive the epoch with jobs and answers to beats",
	},
	{
		name: "ScansAreSlow", directed: "TestReturningRunnerRepeatsItsJobSoon",
		edits:     []mutant.Edit{{In: "watch.missedScans", Node: mutant.Value, Becomes: "7"}},
		unnoticed: "a simulation does not check how soon",
	},
	{
		name: "NodesGetAllJobsAtOnce", directed: "TestDeliveriesPerSlotAreLimited",
		edits:     []mutant.Edit{{In: "placement.windowPerSlot", Node: mutant.Value, Becomes: "2000"}},
		unnoticed: "it changes only the order of calls",
	},
	{
		name: "WaitForStuckDriverConsumesAttempts", directed: "TestNextJobWaitsForOverdueDriver",
		edits:     []mutant.Edit{{In: "workflow.receiver.behindStuck", Node: mutant.Return, Names: "Slots", Becomes: "return ($1) && false"}},
		unnoticed: "a simulated run may fail for this reason",
	},
	{
		name: "DistantEndIsNotRebased", directed: "TestClockSetBackDelaysNoCancel",
		edits:     []mutant.Edit{{In: "workflow.Step.rebase", Node: mutant.Call, Names: "After", Nth: 1, Becomes: mutant.Never}},
		unnoticed: "clocks of simulated supervisors go back by minutes",
	},
	{
		name: "AnyClockDeletesRecords", directed: "TestClockFarAheadDeletesNoRecord",
		edits:     []mutant.Edit{{In: "expiry.Records.deleteOld", Node: mutant.If, Names: "Before", Becomes: mutant.Never}},
		unnoticed: "clocks of simulated supervisors are a minute ahead at most",
	},
	{
		name: "RestoreAwaitsNoInventories", directed: "TestRestoredRunReturnsToItsNode",
		edits:     []mutant.Edit{{In: "workflow.claimer.waitsForInventories", Node: mutant.If, Names: "IsZero", Becomes: mutant.Always}},
		unnoticed: "no journal is restored from a backup",
	},
	{
		name: "InventoriesBindNoCalls", directed: "TestCallOnSilentNodeWaitsForIt",
		edits:     []mutant.Edit{{In: "workflow.reportingNodes", Node: mutant.Call, Names: "reconciles", Becomes: mutant.Negate}},
		unnoticed: "no journal is restored from a backup",
	},
	{
		name:  "ReservationsAreNotReleased",
		edits: []mutant.Edit{{In: "journal.kept.load", Node: mutant.Return, Nth: 4, Becomes: "return Load{Reserved: k.need}"}},
	},
}

// TestMutantsHaveTheirPlace finds the code of each mutant. Its errors explain how to correct the table.
func TestMutantsHaveTheirPlace(t *testing.T) {
	mutated(t)
}

// TestMutantsCompile builds all mutants. Mutants of different places share a build.
func TestMutantsCompile(t *testing.T) {
	testenv.Nightly(t, "TestMutantsHaveTheirPlace of supervisor")
	var programs []*mutant.Mutant
	found := mutated(t)
	for _, changed := range mutants {
		m := found[changed.name]
		if m == nil {
			continue // mutated has reported the error
		}
		if i := slices.IndexFunc(programs, func(p *mutant.Mutant) bool { return !p.Overlaps(m) }); i >= 0 {
			programs[i] = programs[i].Join(m)
		} else {
			programs = append(programs, m)
		}
	}
	root, err := gosource.Module()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", overlayOf(t, p)}, p.Packages()...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("build of mutants failed; correct Becomes of the mutant at the compiler's position: %v\n%s", err, out)
		}
	}
}

// mutated finds the code of all mutants, and returns them by name.
func mutated(t *testing.T) map[string]*mutant.Mutant {
	t.Helper()
	program, err := mutant.Load()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]*mutant.Mutant)
	for _, m := range mutants {
		if found[m.name], err = program.Mutate(m.edits...); err != nil {
			t.Errorf("%s: %v", m.name, err)
			delete(found, m.name)
		}
	}
	return found
}

func overlayOf(t *testing.T, m *mutant.Mutant) string {
	t.Helper()
	path, err := m.Overlay(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSimulationNoticesMutants runs the simulation with each mutant. It takes minutes.
func TestSimulationNoticesMutants(t *testing.T) {
	if !testenv.IsLong() {
		t.Skip("set WRIT_TEST_LONG=1 to run the simulation with mutants")
	}
	chosen, err := regexp.Compile(*simMutant)
	if err != nil {
		t.Fatal(err)
	}
	root, err := gosource.Module()
	if err != nil {
		t.Fatal(err)
	}
	found := mutated(t)
	for _, m := range mutants {
		if !chosen.MatchString(m.name) || found[m.name] == nil {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			overlay := overlayOf(t, found[m.name])
			if m.directed != "" {
				if complaint, failed := runMutant(t, root, overlay, "^"+m.directed+"$"); failed {
					t.Logf("%s: %s", m.directed, complaint)
				} else {
					t.Errorf("%s passes with the mutant", m.directed)
				}
			}
			if *directedOnly {
				return
			}
			noticed := ""
			for seed := 1; noticed == "" && seed <= 10; seed++ {
				complaint, failed := runMutant(t, root, overlay, "^TestSimulation$", "-seed", fmt.Sprint(seed), "-virtual", "40m", "-nodes", "6")
				if failed {
					noticed = fmt.Sprintf("seed %d: %s", seed, complaint)
				}
			}
			switch {
			case noticed != "":
				t.Log(noticed)
			case m.unnoticed != "":
				t.Log("not noticed: " + m.unnoticed)
			default:
				t.Error("all simulations pass with the mutant")
			}
		})
	}
}

// runMutant runs tests of a mutant and returns the first failure message.
func runMutant(t *testing.T, root, overlay, tests string, flags ...string) (complaint string, failed bool) {
	t.Helper()
	args := []string{"test", "-vet=off", "-tags", "checksums", "-overlay", overlay, "-count=1", "-timeout", "10m", "./supervisor", "-run", tests}
	cmd := exec.CommandContext(t.Context(), "go", append(args, flags...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "WRIT_TEST_LONG=")
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "[build failed]"):
		t.Fatalf("build of the mutant failed:\n%s", out)
	case err == nil:
		return "", false
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "_test.go:") && !strings.Contains(line, "seed") || strings.HasPrefix(line, "panic:") {
			return line, true
		}
	}
	return string(out[:min(len(out), 500)]), true
}
