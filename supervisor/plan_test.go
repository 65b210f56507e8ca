package supervisor_test

import (
	"context"
	"strings"
	"testing"

	"writ"
	"writ/identity"
	"writ/scripts"
	"writ/scripts/interpreter"
	"writ/supervisor/journal"
)

// planned returns the plan of a payload, as a client computes it.
func (s *sim) planned(p *identity.Payload) scripts.Plan {
	s.t.Helper()
	plan, err := interpreter.PlanOf(s.t.Context(), scripts.Bundle{Main: scripts.Source{Name: p.Script.Name, Text: p.Script.Text}}, scripts.Inputs{
		Params: p.Params, Project: p.ProjectName, Datacenter: p.Datacenter, DatacenterName: s.roster.Datacenter(p.Datacenter).Name,
		Allow: p.Allow, MaxCalls: p.MaxCalls,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return plan
}

// submitBound submits script, bound to the plan of another script.
func (s *sim) submitBound(script, planned string) writ.RunID {
	s.t.Helper()
	p := s.payload(script)
	other := *p
	other.Script.Text = []byte(planned)
	p.Plan = s.planned(&other).Digest
	run, err := s.Submit(s.t.Context(), s.signPayload(p))
	if err != nil {
		s.t.Fatal(err)
	}
	return run.ID
}

// boundScript has calls without unknown values, calls with unknown values, and calls beyond the horizon of its plan.
const boundScript = `
volume := import("volume")
machine := import("machine")
node := import("node")
run := import("run")
facts := node.facts()
disk := volume.create("disk", {size_gib: 2}, {retries: 2})
machine.create("vm", {cpus: 2, memory_mib: 64, disks: [disk], env: {HOST: facts.hostname, RUN: run.id, AT: string(run.now())}}, {timeout: "1m"})
if disk.err == undefined { volume.create("more", {size_gib: 1}).path }
run.output({host: facts.hostname})
`

func TestBoundRunFollowsItsPlan(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		for range 2 {
			_, calls := s.wantState(s.submitBound(boundScript, boundScript), writ.RunSucceeded)
			if len(calls) != 5 {
				t.Errorf("got %d calls, want 5", len(calls))
			}
		}
	})
}

func TestPlanBindsRunAfterRestart(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		id := s.submitBound(waitingScript, waitingScript)
		s.awaitCall(id, 1, writ.CallPlanned)
		s.halt()
		s.evaluator = &strayEvaluator{pass: strings.Replace(waitingScript, `"second"`, `"other"`, 1)}
		s.start()
		s.join("n1")
		run, calls := s.wantState(id, writ.RunFailed)
		wantDeviation(t, run, "call 2 is volume.create other; the plan has volume.create second", "test.tengo:5:1")
		if len(calls) != 1 {
			t.Errorf("got %d calls, want 1", len(calls))
		}
		s.wantEffects(1)
	})
}

const waitingScript = `volume := import("volume")
run := import("run")
first := volume.create("first", {size_gib: 1})
run.log(first.path, first.err)
volume.create("second", {size_gib: 1})
volume.create("third", {size_gib: 1})
`

func TestForeignPlanIsRefusedBeforeFirstCall(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		run, calls := s.wantState(s.submitBound(waitingScript, strings.Replace(waitingScript, "third", "fourth", 1)), writ.RunFailed)
		if run.Failure.Code != writ.CodePlanMismatch || len(calls) != 0 {
			t.Errorf("got %d calls, failure %+v; want none, PLAN_MISMATCH", len(calls), run.Failure)
		}
		s.wantEffects(0)
	})
}

// strayEvaluator is a faulty evaluator, which makes runs deviate from their plans.
type strayEvaluator struct {
	inProcess
	pass    string // evaluated instead of the script of a run
	crashes bool   // when it computes a plan
}

func (e *strayEvaluator) Pass(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, journal []scripts.Entry) (scripts.Outcome, error) {
	bundle.Main.Text = []byte(e.pass)
	return e.inProcess.Pass(ctx, bundle, inputs, journal)
}

func (e *strayEvaluator) Plan(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs) (scripts.Plan, error) {
	if e.crashes {
		return scripts.Plan{}, writ.Errorf(writ.CodeEvaluatorCrashed, "injected crash")
	}
	return e.inProcess.Plan(ctx, bundle, inputs)
}

func wantDeviation(t *testing.T, run *journal.Run, message, position string) {
	t.Helper()
	if f := run.Failure; f.Code != writ.CodePlanDeviated || f.Message != message || f.Position != position {
		t.Errorf("failure = %s %q at %s, want %q at %s", f.Code, f.Message, f.Position, message, position)
	}
}

// Promise: Submissions: A run with a plan performs the planned calls or stops before the first deviation.
// How: The supervisor makes the plan and compares every pass with it; beyond the plan's horizon the signed header is
// the limit.
// Also: TestForeignPlanIsRefusedBeforeFirstCall.
func TestRunStopsBeforeUnplannedCall(t *testing.T) {
	for name, test := range map[string]struct {
		replace, with     string
		message, position string
		calls             int // number of calls of the run
		sent              int // number of sent calls
	}{
		"another operation": {`volume.create("second"`, `volume.resize("first"`, "call 2 is volume.resize first; the plan has volume.create second", "test.tengo:5:1", 1, 1},
		"another name":      {`"third"`, `"fourth"`, "call 3 is volume.create fourth; the plan has volume.create third", "test.tengo:6:1", 2, 1},
		"another spec":      {`"third", {size_gib: 1}`, `"third", {size_gib: 5}`, "call 3, volume.create third, has size_gib 5; the plan has 1", "test.tengo:6:1", 2, 1},
		"other options":     {`"third", {size_gib: 1}`, `"third", {size_gib: 1}, {retries: 1}`, "call 3, volume.create third, has other options than planned", "test.tengo:6:1", 2, 1},
		"one more":          {"(\"third\", {size_gib: 1})\n", "(\"third\", {size_gib: 1})\nvolume.create(\"fourth\", {size_gib: 1})\n", "call 4 is volume.create fourth; the plan ends after 3 calls", "test.tengo:7:1", 3, 1},
		"one less":          {`volume.create("third", {size_gib: 1})`, ``, "the script ended after 2 calls; call 3 of the plan is volume.create third", "test.tengo:6:1", 2, 1},
		"the first call":    {`"first"`, `"one"`, "call 1 is volume.create one; the plan has volume.create first", "test.tengo:3:10", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				if strings.Count(waitingScript, test.replace) != 1 {
					t.Fatal("the script has no such text")
				}
				s.halt()
				s.evaluator = &strayEvaluator{pass: strings.Replace(waitingScript, test.replace, test.with, 1)}
				s.start()
				s.join("n1")
				p := s.payload(waitingScript)
				p.Allow = append(p.Allow, "volume.resize")
				p.Plan = s.planned(p).Digest
				accepted, err := s.Submit(t.Context(), s.signPayload(p))
				if err != nil {
					t.Fatal(err)
				}
				run, calls := s.wantState(accepted.ID, writ.RunFailed)
				wantDeviation(t, run, test.message, test.position)
				if len(calls) != test.calls {
					t.Errorf("got %d calls, want %d", len(calls), test.calls)
				}
				s.wantEffects(test.sent)
			})
		})
	}
}

func TestPlanKillingEvaluatorFailsRun(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.halt()
		s.evaluator = &strayEvaluator{pass: waitingScript, crashes: true}
		s.start()
		run, calls := s.wantState(s.submitBound(waitingScript, waitingScript), writ.RunFailed)
		if run.Failure.Code != writ.CodeEvaluatorCrashed || len(calls) != 0 {
			t.Errorf("got %d calls, failure %+v; want none, EVALUATOR_CRASHED", len(calls), run.Failure)
		}
	})
}
