package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/target"
)

// kind is a kind of run. Its script makes callsOfRun calls unless it fails earlier.
type kind struct {
	name    string
	share   int // percentage of runs
	script  string
	destroy bool
	cancel  bool            // whether it gets cancelled
	resume  bool            // whether it gets resumed after a failure
	ends    []writ.RunState // permitted final states
	code    writ.Code       // of its failure
}

const callsOfRun = 10

var succeeds = []writ.RunState{writ.RunSucceeded}

// kinds lists the kinds of runs. Resource names begin with the name of the run, except for shared resources. Other
// prefixes make simulated drivers fail.
var kinds = []kind{
	{name: "chain", share: 20, ends: succeeds, script: `
for i := 0; i < 10; i++ {
	db := herodb.create(name + "-" + i, {memory_mib: 16})
	run.log("made", db.address)
}`},
	{name: "fan", share: 15, ends: succeeds, script: `
for i := 0; i < 10; i++ {
	herodb.create(name + "-" + i, {memory_mib: 16})
}`},
	{name: "once", share: 15, ends: succeeds, script: `
i := image.fetch(name, {url: "https://images.example/a.tar", sha256: sha, format: "oci"})
c := container.create(name, {image: i, memory_mib: 16})
for n := 0; n < 8; n++ {
	e := container.exec(c, {command: ["work", "" + n]})
	if err := e.err; err != undefined {
		run.log("exec", n, err.code)
	}
}
for n := 0; n < 4; n++ {
	container.run("slow-1-" + name + "-" + n, {image: i, memory_mib: 16})
}`},
	{name: "troubled", share: 15, ends: succeeds, script: `
for before in ["flaky-1-", "flaky-2-", "slow-1-", "flaky-1-", "", "", "slow-1-", "", "flaky-1-", ""] {
	herodb.create(before + name + "-" + len(made), {memory_mib: 16})
	made = append(made, before)
}`},
	{name: "handled", share: 5, ends: succeeds, script: `
for i := 0; i < 5; i++ {
	bad := herodb.create("fail-" + name + "-" + i, {memory_mib: 16})
	if err := bad.err; err != undefined {
		herodb.create(name + "-" + i, {memory_mib: 16})
	}
}`},
	{name: "failing", share: 5, ends: []writ.RunState{writ.RunFailed}, code: writ.CodeInjectedFinal, script: `
for i := 0; i < 9; i++ {
	herodb.create(name + "-" + i, {memory_mib: 16})
}
herodb.create("fail-" + name, {memory_mib: 16})`},
	{name: "cancelled", share: 8, cancel: true, ends: []writ.RunState{writ.RunCancelled, writ.RunSucceeded}, script: `
for i := 0; i < 10; i++ {
	db := herodb.create("slow-1-" + name + "-" + i, {memory_mib: 16})
	run.log("made", db.address)
}`},
	{name: "resumed", share: 7, resume: true, ends: succeeds, script: `
i := image.fetch(name, {url: "https://images.example/a.tar", sha256: sha, format: "oci"})
c := container.create(name, {image: i, memory_mib: 16})
for n := 0; n < 4; n++ {
	e := container.exec(c, {command: ["work", "" + n]})
	run.log("exec ended with", e.exit_code)
}
db := herodb.create("flaky-2-" + name, {memory_mib: 16}, {retries: 0})
run.log("made", db.address)
for n := 0; n < 3; n++ {
	herodb.create(name + "-" + n, {memory_mib: 16})
}`},
	{name: "destroying", share: 5, destroy: true, ends: succeeds, script: `
v := volume.create(name, {size_gib: 1})
volume.snapshot(v, {snapshot: "before"})
volume.resize(v, {size_gib: 2})
r := volume.restore(v, {snapshot: "before"})
if err := r.err; err != undefined {
	run.log("restore", err.code)
}
volume.snapshot(v, {snapshot: "after"})
w := volume.clone(name + "-copy", {from: v})
s := volume.send(v, {backup: name})
if err := s.err; err != undefined {
	run.log("send", err.code)
}
volume.resize(w, {size_gib: 3})
volume.delete(w)
volume.delete(v)`},
	{name: "shared", share: 5, ends: succeeds, script: `
db := herodb.create("shared-" + run.params.shared, {memory_mib: 16})
r := herodb.rotate_secret(db)
if err := r.err; err != undefined {
	run.log("rotate", err.code)
}
herodb.backup(db, {backup: name})
for i := 0; i < 7; i++ {
	herodb.create(name + "-" + i, {memory_mib: 16})
}`},
}

// prelude is the start of each script.
const prelude = `
run := import("run")
%s
params := {name: {type: "string"}, shared: {type: "string"}}
name := run.params.name
%s`

// text returns the script of a kind. It omits unused modules and helpers, which would fail the check.
func (k *kind) text() []byte {
	var modules, helpers strings.Builder
	for _, m := range []string{"herodb", "image", "container", "volume"} {
		if strings.Contains(k.script, m+".") {
			fmt.Fprintf(&modules, "%s := import(%q)\n", m, m)
		}
	}
	if strings.Contains(k.script, "sha256: sha") {
		fmt.Fprintf(&helpers, "sha := %q\n", strings.Repeat("0", 64))
	}
	if strings.Contains(k.script, "len(made)") {
		helpers.WriteString("made := []\n")
	}
	return fmt.Appendf(nil, prelude+"%s\nrun.output({done: true})\n", modules.String(), helpers.String(), k.script)
}

// errand is a requested run and its progress.
type errand struct {
	kind   *kind
	number int
	luck   *rand.Rand
	id     writ.RunID

	accepted atomic.Bool // whether the coordinator confirmed it
	ended    atomic.Bool
	err      error // unexpected error; set before all is done
	resumes  int
	run      api.Run
	summary  writ.Summary
}

func newErrand(seed uint64, number int) *errand {
	luck := rand.New(rand.NewPCG(seed, uint64(number)+1))
	at := luck.IntN(100)
	i := slices.IndexFunc(kinds, func(k kind) bool {
		at -= k.share
		return at < 0
	})
	return &errand{kind: &kinds[i], number: number, luck: luck}
}

func (e *errand) String() string {
	if !e.accepted.Load() {
		return fmt.Sprintf("number %d (%s, not accepted)", e.number, e.kind.name)
	}
	return fmt.Sprintf("run %s (%s, number %d)", e.id, e.kind.name, e.number)
}

// handIn submits all runs over the course of the storm.
func (s *storm) handIn() {
	defer close(s.handedIn)
	room := make(chan struct{}, inFlight)
	for _, e := range s.work {
		select {
		case <-s.turns:
		case <-s.ctx.Done():
			return
		}
		select {
		case room <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		s.all.Go(func() {
			e.err = s.see(e)
			e.ended.Store(true)
			<-room
		})
	}
}

// see submits a run and follows it until it has ended.
func (s *storm) see(e *errand) error {
	signed, err := s.sign(e)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	err = s.insist(func(ctx context.Context) error {
		submission, err := s.cluster.Client.Orders.Submit(ctx, signed)
		if err == nil && submission.Run != e.id {
			err = fmt.Errorf("the coordinator calls it %s", submission.Run)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("hand in: %w", err)
	}
	e.accepted.Store(true)
	var cancelled sync.WaitGroup
	if e.kind.cancel {
		cancelled.Go(func() { s.cancel(e) })
	}
	defer cancelled.Wait()
	for {
		if e.run, err = s.cluster.Client.Streams.Watch(s.ctx, e.id, client.Watcher{Event: func(api.Event) {}}); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if !e.kind.resume || e.run.State != api.RunState(writ.RunFailed) || e.resumes == 10 {
			break
		}
		e.resumes++
		if err := s.resume(e); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	if e.summary, err = client.Outcome(s.roster, e.run); err != nil {
		return fmt.Errorf("verify the end: %w", err)
	}
	if !slices.Contains(e.kind.ends, e.summary.State) || e.summary.Failure != nil && e.kind.code != "" && e.summary.Failure.Code != e.kind.code {
		return fmt.Errorf("it is %s: %+v", e.summary.State, e.summary.Failure)
	}
	return nil
}

// sign returns the submission of a run.
func (s *storm) sign(e *errand) ([]byte, error) {
	order := client.Order{
		Script:     client.NewScript(e.kind.name+".tengo", e.kind.text()),
		Params:     map[string]any{"name": fmt.Sprintf("%s-%d", e.kind.name, e.number), "shared": fmt.Sprint(e.luck.IntN(4))},
		Datacenter: s.datacenter, Project: s.roster.Projects[0],
		Expires: identity.DefaultValidity, Deadline: time.Hour, MaxCalls: 2 * callsOfRun,
	}
	if e.kind.destroy {
		order.Targets = []string{target.Any}
	}
	text, err := order.Payload(s.roster, s.person.Signatory())
	if err != nil {
		return nil, err
	}
	e.id = writ.RunIDOf(writ.DigestOf(text))
	return s.person.SignPayload(text)
}

// cancel cancels a run after a random time, unless it has ended.
func (s *storm) cancel(e *errand) {
	select {
	case <-time.After(time.Duration(e.luck.Int64N(int64(8 * time.Second)))):
	case <-s.ctx.Done():
		return
	}
	_ = s.insist(func(ctx context.Context) error { // the run may have ended, which is a valid answer
		err := s.decide(ctx, e, "cancel")
		if writ.CodeOf(err) == writ.CodeNotFound { // the datacenter does not have it yet
			return writ.Errorf(writ.CodeUnreachable, "too early")
		}
		return err
	})
}

// resume resumes a failed run and returns when the coordinator shows it as resumed.
func (s *storm) resume(e *errand) error {
	before := e.run
	err := s.insist(func(ctx context.Context) error {
		err := s.decide(ctx, e, "resume")
		if writ.CodeOf(err) == writ.CodeConflict { // the response to an earlier attempt was lost: the run was resumed
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.insist(func(ctx context.Context) error { return s.cluster.Client.Streams.AwaitNews(ctx, before) })
}

func (s *storm) decide(ctx context.Context, e *errand, decision string) error {
	run, err := s.cluster.Client.Runs.Get(ctx, e.id)
	if err != nil {
		return err
	}
	_, err = s.cluster.Client.Statements.Decide(ctx, s.person, client.AboutRun(run, decision))
	return err
}

// insist repeats a request until it gets a permanent answer.
func (s *storm) insist(ask func(ctx context.Context) error) error {
	for {
		ctx, stop := context.WithTimeout(s.ctx, 15*time.Second)
		err := ask(ctx)
		stop()
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case err == nil:
			return nil
		case !writ.AsError(err).Retryable() && !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}
