package supervisor_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"writ/internal/testenv"
)

var simMutant = flag.String("mutant", ".", "which mutants to try, a regular expression")

// mutants are the program without one of its mechanisms each. A simulation, or a directed test, that does not notice proves nothing.
var mutants = []struct {
	name      string
	file      string // of the module
	was, is   string // was stands there once
	directed  string // the test of this mechanism, "" if it has none in this package
	unnoticed string // why no simulation has to notice
}{
	{
		name: "NodesObeyEarlierEpochs", directed: "TestAJobOfAnEarlierSupervisorThatComesLateIsNotDone", file: "runner/handle.go",
		was: "; job.Epoch < epoch {", is: "; job.Epoch < min(epoch, 0) {",
		unnoticed: "the key of a job keeps it from being done twice, whoever sends it",
	},
	{
		name: "NodesForgetWhatTheyBegan", file: "runner/handle.go",
		was: "return past, n.noteStore(accepting, err)", is: "_ = past\n\treturn nil, n.noteStore(accepting, err)",
	},
	{
		name: "NodesTakeNoNoticeOfTheirOwnDeath", file: "runner/handle.go",
		was: "interrupted := past.Entry != nil && past.Entry.Incarnation < n.number", is: "interrupted := past.Entry != nil && past.Entry.Incarnation > n.number",
	},
	{
		name: "ResourcesAreWorkedOnByManyAtATime", directed: "TestTheNextJobWaitsForADriverThatOutlivesItsRun", file: "runner/locks.go",
		was: "case <-k.held:\n\t\treturn nil", is: "default:\n\t\treturn nil",
		unnoticed: "its hosts do not mind",
	},
	{
		name: "NobodyLooksForJobsThatAreNowhere", directed: "TestABeatThatDoesNotNameAJobAnyMoreHasItDeliveredAgain", file: "supervisor/watch.go",
		was: "if w.flushed || looks >= missedLooks {", is: "if looks < 0 {",
	},
	{
		name: "ResultsAreNotAcknowledged", directed: "TestResultsAreAcknowledged", file: "supervisor/dispatch.go",
		was: "keys[a.node] = append(keys[a.node], a.result.JobKey)", is: "keys[a.node] = nil",
	},
	{
		name: "AnyResultIsTaken", directed: "TestForgedResultsAreIgnored", file: "supervisor/step.go",
		was: "if t.genuine[i], err = tx.WasSent(c, a.result.Attempt, a.node, a.result.Job); err != nil {", is: "if t.genuine[i] = a.node != \"\"; err != nil {",
		unnoticed: "no node of a simulation lies",
	},
	{
		name: "ResultsOfAnyTryAreTaken", directed: "TestAResultOfAnAttemptBeforeTheResumeDoesNotAnswerTheNewOne", file: "supervisor/receive.go",
		was: "case a.result.Attempt < c.Attempt:", is: "case a.result.Attempt < 0:",
	},
	{
		name: "CallsHaveNoEnd", file: "supervisor/watch.go",
		was: "rest < -endGrace {", is: "rest < -1000*watchEvery*3600 {",
		unnoticed: "nodes end calls themselves, and a lost node loses its own",
	},
	{
		name: "LostNodesKeepTheirCalls", directed: "TestALostNodeEndsWhatWasSentThere", file: "supervisor/watch.go",
		was: "w.s.steps.post(id, mail{lost: []writ.NodeID{node}})", is: "_ = id",
		unnoticed: "whatever is lost ends at its end-by, too",
	},
	{
		name: "NobodyIsToldThatANodeWasRemoved", directed: "TestNoRunWaitsForANodeThatWasRemoved", file: "supervisor/statements.go",
		was: "range append(waiting, s.boundSince(ctx, id)...) {", is: "range waiting[:0] {",
	},
	{
		name: "RemovedNodesKeepTheirCalls", directed: "TestNoRunWaitsForANodeThatWasRemoved", file: "supervisor/receive.go",
		was: "range t.lostNow(m.lost) {", is: "range m.lost {",
	},
	{
		name: "WrongClocksGetWork", directed: "TestANodeWhoseClockIsOffGetsNoNewWorkAndSaysSo", file: "supervisor/fleet.go",
		was: "late.Abs() > maxSkew {", is: "late.Abs() > 1e6*maxSkew {",
	},
	{
		name: "NobodyIsFenced", directed: "TestAnOldSupervisorThatWakesUpChangesNothing", file: "supervisor/journal/lease.go",
		was: "if err == nil && last != mine {", is: "if err == nil && last < 0 {",
		unnoticed: "an old supervisor is awake for seconds, nobody talks to it, and nodes do not obey it",
	},
	{
		name: "JobsThatWaitAreDeliveredAgain", directed: "TestAThousandJobsThatWaitInTheQueueAreDeliveredOnce", file: "supervisor/watch.go",
		was: "if !w.flushed && len(gone) > 0 {", is: "if !w.flushed && len(gone) > 1e9 {",
		unnoticed: "a job that is delivered twice is done once",
	},
	{
		name: "AQueueThatIsAwaySilencesNodes", directed: "TestAQueueThatIsAwayForNinetySecondsLosesNoNode", file: "supervisor/watch.go",
		was: "case !queueWorks:\n\t\tpassed = 0\n\tcase rounds == w.rounds:\n\t\treturn 0", is: "case rounds < 0:\n\t\treturn 0",
		unnoticed: "a run may fail because a node is lost",
	},
	{
		name: "WhoStoodStillBlamesNodes", directed: "TestASupervisorThatStandsStillLosesNoNode", file: "supervisor/watch.go",
		was: "passed := min(at.Sub(w.heard), maxListened)", is: "passed := at.Sub(w.heard)",
		unnoticed: "a run may fail because a node is lost",
	},
	{
		name: "ACollectorThatWaitsBlamesNodes", directed: "TestALateLookIsNoSilence", file: "supervisor/watch.go",
		was: "case rounds == w.rounds:", is: "case rounds < 0:",
		unnoticed: "no journal of a simulation hangs",
	},
	{
		name: "NodesForgetCancelledRuns", directed: "TestACancelThatOvertakesItsJobKeepsItFromBeingDone", file: "runner/desk.go",
		was: "w.taken.Before(c.Until) &&", is: "w.taken.IsZero() &&",
		unnoticed: "what a run did before its end is not held against it",
	},
	{
		name: "AResumeForgetsWhatTheScriptHasSeen", directed: "TestAResumeKeepsWhatTheScriptHasSeenAndRepeatsOnlyTheFailure", file: "supervisor/resume.go",
		was: "if c.State == writ.CallSucceeded || slices.Contains(run.Handled, c.Seq) {", is: "if c.State == writ.CallSucceeded {",
		unnoticed: "nobody knows which way a simulated script should have gone",
	},
	{
		name: "EpochsFollowTheJournalOnly", directed: "TestAJournalRestoredFromBackupRepeatsNothing", file: "supervisor/journal/lease.go",
		was: "epoch = max(last+1, now.UnixMilli())", is: "epoch = last + 1",
		unnoticed: "no journal is restored from a backup",
	},
	{
		name: "ANewSupervisorDoesNotSaySo", directed: "TestANodeHearsOfASupervisorBeforeItsFirstJob", file: "supervisor/supervisor.go",
		was: "\ts.announce(ctx)\n", is: "\n",
		unnoticed: "nodes learn the epoch from jobs and beats, too",
	},
	{
		name: "LookingTakesItsTime", directed: "TestAJobOfAKilledRunnerRunsAgainSoonAfterItsReturn", file: "supervisor/watch.go",
		was: "missedLooks = 2", is: "missedLooks = 7",
		unnoticed: "a simulation asks whether, and not how soon",
	},
	{
		name: "NodesGetAllAtOnce", directed: "TestNoMoreThanTwoDeliveriesPerSlotAreOut", file: "supervisor/send.go",
		was: "windowPerSlot = 2", is: "windowPerSlot = 2000",
		unnoticed: "order is all that it costs",
	},
	{
		name: "WhoWaitsBehindAStuckDriverLosesPatience", directed: "TestTheNextJobWaitsForADriverThatOutlivesItsRun", file: "supervisor/receive.go",
		was: "return len(n.Stuck) >= max(n.Slots, 1) ||", is: "return len(n.Stuck) > 1<<30 &&",
		unnoticed: "a simulated run may fail because of that",
	},
	{
		name: "AnEndThatIsFarAwayIsWaitedFor", directed: "TestACancelledRunEndsEvenIfTheClockIsSetBack", file: "supervisor/step.go",
		was: "run.StopBy.After(t.now.Add(stopWithin))", is: "run.StopBy.IsZero()",
		unnoticed: "clocks of simulated supervisors go back by minutes",
	},
	{
		name: "AnyClockMakesOld", directed: "TestAClockThatIsFarAheadForgetsNothing", file: "supervisor/forget.go",
		was: "now = earlier(now, newest)", is: "_ = earlier(now, newest)",
		unnoticed: "clocks of simulated supervisors are a minute ahead at most",
	},
	{
		name: "NodesAreNotAskedAfterARestore", directed: "TestAfterARestoreARunGoesToTheNodeThatHasIt", file: "supervisor/reconcile.go",
		was: "if len(silent) == 0 {", is: "if len(silent) >= 0 {",
		unnoticed: "no journal is restored from a backup",
	},
	{
		name: "WhatNodesHaveBindsNobody", directed: "TestACallThatASilentNodeHasWaitsForIt", file: "supervisor/reconcile.go",
		was: "if !t.reconciles() || c.Node", is: "if t.reconciles() || c.Node",
		unnoticed: "no journal is restored from a backup",
	},
	{
		name: "ReservationsAreNotGivenBack", file: "supervisor/journal/loads.go",
		was: "default:\n\t\treturn Load{}", is: "default:\n\t\treturn Load{Reserved: k.need}",
	},
}

func TestMutantsAreOfThisProgram(t *testing.T) {
	for _, m := range mutants {
		if text, err := os.ReadFile(filepath.Join("..", m.file)); err != nil || strings.Count(string(text), m.was) != 1 {
			t.Errorf("%s: %s does not have %q once, %v", m.name, m.file, m.was, err)
		}
	}
}

// TestSimulationNoticesMutants tries the simulation on programs that lack something. It costs minutes.
func TestSimulationNoticesMutants(t *testing.T) {
	if !testenv.IsLong() {
		t.Skip("set WRIT_TEST_LONG=1 to try the simulation on programs that lack something")
	}
	chosen, err := regexp.Compile(*simMutant)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if !chosen.MatchString(m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			overlay := mutate(t, filepath.Join(root, m.file), m.was, m.is)
			if m.directed != "" {
				if complaint, failed := runMutant(t, root, overlay, "^"+m.directed+"$"); failed {
					t.Logf("%s: %s", m.directed, complaint)
				} else {
					t.Errorf("%s does not notice", m.directed)
				}
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
				t.Error("no simulation notices")
			}
		})
	}
}

// mutate returns the overlay that puts a text into a file in place of another one.
func mutate(t *testing.T, file, was, is string) (overlay string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mutant, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutant}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{mutant: []byte(strings.Replace(string(text), was, is, 1)), overlay: replaced} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

// runMutant runs tests on another program and returns the first complaint.
func runMutant(t *testing.T, root, overlay, tests string, flags ...string) (complaint string, failed bool) {
	t.Helper()
	args := []string{"test", "-vet=off", "-tags", "checksums", "-overlay", overlay, "-count=1", "-timeout", "10m", "./supervisor", "-run", tests}
	cmd := exec.CommandContext(t.Context(), "go", append(args, flags...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "WRIT_TEST_LONG=")
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "[build failed]"):
		t.Fatalf("it cannot be built:\n%s", out)
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
