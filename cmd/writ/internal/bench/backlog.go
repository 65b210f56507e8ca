package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"writ/cmd/writ/internal/client"
	"writ/identity"
)

// backlog is a set of runs that wait: of ten runs, seven wait for a slot of the busy node, two for a resource of an
// earlier run, and one for the previous revision of its deployment.
type backlog struct {
	runs int // number of runs
	note func(format string, args ...any)

	lists           [][][]byte // signed submissions, one list per submitter
	behindResources int        // runs that wait for a resource
	behindRevisions int        // runs that wait for a revision
}

const (
	// submitters is the number of concurrent submitters. A link accepts 128 concurrent requests.
	submitters = 64
	// ofEach is the minimum number of runs per submitter, so that each kind occurs.
	ofEach = 40
)

// slotsScript is the script of the waiting runs. A simulated driver takes 9999 s to create a resource whose name begins
// with slow-9999.
const slotsScript = `
herodb := import("herodb")
run := import("run")
params := {name: {type: "string"}}
db := herodb.create("slow-9999-" + run.params.name, {memory_mib: 16}, {node: "busy", timeout: "24h"})
run.output({address: db.address})
`

// All waiting runs use the busy node.
const busyNode, busySlots = "busy", 64

// sign signs the submissions for the datacenter of a cluster. Only the submissions of one submitter are ordered, so
// each submitter has its own resource and deployment.
func (b *backlog) sign(s *cluster) error {
	script := client.NewScript("waiting.tengo", []byte(slotsScript))
	b.lists = make([][][]byte, min(submitters, max(b.runs/ofEach, 1)))
	var orders errgroup.Group
	orders.SetLimit(runtime.GOMAXPROCS(0))
	for i := range b.lists {
		n := b.runs / len(b.lists)
		if i < b.runs%len(b.lists) {
			n++
		}
		b.lists[i] = make([][]byte, n)
		revision := 0
		for j := range b.lists[i] {
			one := client.Order{Script: script, Expires: identity.MaxValidity, Deadline: identity.MaxDeadline, MaxCalls: 10}
			name := fmt.Sprintf("%d-%d", i, j)
			switch {
			case j%10 == 7 || j%10 == 8:
				name = fmt.Sprintf("shared-%d", i)
				if j > 7 {
					b.behindResources++
				}
			case j%10 == 9:
				one.Deployment = identity.Deployment{Name: fmt.Sprintf("bench-%d", i), Base: revision}
				if revision > 0 {
					b.behindRevisions++
				}
				revision++
			}
			one.Params = map[string]any{"name": name}
			orders.Go(func() (err error) {
				b.lists[i][j], err = s.sign(one)
				return err
			})
		}
	}
	return orders.Wait()
}

// behindSlots returns the number of runs whose call waits for a slot of the busy node or occupies one.
func (b *backlog) behindSlots() int { return b.runs - b.behindResources - b.behindRevisions }

// evaluated returns the number of runs that are evaluated at least once. A run that waits for a revision is not
// evaluated.
func (b *backlog) evaluated() int { return b.runs - b.behindRevisions }

// fill submits the signed runs and waits until all of them wait. It returns the duration until all were accepted, and
// the duration until all wait.
func (b *backlog) fill(ctx context.Context, f front) (accepted, all time.Duration, err error) {
	already := f.news().started()
	begun := time.Now()
	var handedIn atomic.Int64
	group, submitting := errgroup.WithContext(ctx)
	for _, list := range b.lists {
		group.Go(func() error {
			for _, signed := range list {
				if submitting.Err() != nil {
					return context.Cause(submitting)
				}
				if _, err := f.submit(ctx, signed); err != nil {
					return fmt.Errorf("submit: %w", err)
				}
				if n := int(handedIn.Add(1)); n%max(b.runs/10, 1) == 0 {
					b.note("%d accepted after %s", n, time.Since(begun).Round(100*time.Millisecond))
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	accepted = time.Since(begun)
	err = f.news().await(ctx, func(e *events) bool { return e.begun >= already+b.evaluated() })
	return accepted, time.Since(begun), err
}
