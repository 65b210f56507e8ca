// Package sal is the contract between a runner and the drivers that change the host. Every driver keeps the same
// promises, independently of the tool that it uses. The package is independent of callers, queues and retries. The
// conformance suite for drivers is sal/saltest.
package sal

import (
	"context"
	"errors"
	"time"

	"writ"
	"writ/sal/catalog"
)

// Request asks a driver to carry out one operation.
type Request struct {
	Operation *catalog.Operation
	Resource  writ.ResourceID // zero if the operation names no resource
	UID       writ.UID
	Args      any // a pointer to the operation's argument struct of package catalog
	// Key is the identity of the job, "<run>-<seq>-<attempt>". Drivers that count effects use it as the key; no other
	// code may depend on it.
	Key  string
	Call CallHistory
	// Origin is the source of the content that the operation copies, nil if it is on this host.
	Origin Origin
	// Progress reports the progress of the work in a sentence, for people who watch the run. It is never nil. The first
	// few texts are shown at once. Later, at most one text every ten seconds is shown, and the texts before it are
	// dropped.
	Progress func(text string)
}

// CallHistory describes the call of a job, for drivers that continue an interrupted operation (catalog.Resume). The UID
// of the request identifies the call.
type CallHistory struct {
	Attempt int // number of the attempt, from 1
	// Known is the number of an earlier attempt. When the supervisor started the current attempt, it knew the failures of
	// all attempts up to Known. So the operation may be executed again if one of these attempts returned the result of
	// the last execution.
	Known int
	// Repeatable means that the operation may be executed again if the outcome of an execution is unknown.
	Repeatable bool
	Until      time.Time // no job of the call arrives after this time
}

// Number returns the number of the attempt, 1 if it is unset.
func (h CallHistory) Number() int { return max(h.Attempt, 1) }

// ErrStopping is the cause of contexts that end because the runner stops. The next runner on the host repeats the
// request. An operation with catalog.Resume then leaves its work running.
var ErrStopping = errors.New("the runner is stopping")

// Outcome is the result of an operation.
type Outcome struct {
	Change writ.Change
	Values map[string]any // fields of the operation's result schema
}

// Observation is the current state of one resource.
type Observation struct {
	Exists bool
	UID    writ.UID
	State  string         // a word that the driver chooses, like "running"; catalog.Gone if only the record exists
	Values map[string]any // as in Outcome
}

// Driver executes the operations of one module on this host.
//
// Every operation that is declared as repeatable is idempotent: it may be called again after a crash at any point, and
// returns ChangeUnchanged if the state is already as requested. A Make operation compares its arguments with the
// arguments of the last Make, not with the effects of Alter operations since then. So a script that makes a volume of
// 10 GiB and then grows it to 20 makes no changes when it runs again. Equal arguments result in ChangeUnchanged, a
// different mutable field in ChangeUpdated, and a different immutable field in IMMUTABLE_FIELD. A resource that has a
// record but no longer exists (catalog.Gone) is made again, which results in ChangeCreated or in an error that names
// the obstacle.
//
// An operation with catalog.Resume is executed at most once for its UID, and repeated calls return the result of this
// execution: see Results. After a crash, a repeated call continues the interrupted execution. At its end, the resource
// does not exist.
//
// A resource has one UID for life. An operation with another UID, even a Remove, fails with RESOURCE_CONFLICT, because
// another call created the resource. Remove of a missing resource succeeds with ChangeUnchanged. Alter and Look of a
// missing resource fail with RESOURCE_UNKNOWN, and so does any operation with a handle or name of a missing resource
// among its arguments. Look returns ChangeNone.
//
// A catalog.Text among the arguments may be a secret. Only the tool may get its value: a driver reveals the value when
// it calls the tool. The driver never records, logs or returns the value or anything derived from it. Records contain
// the name and version of the secret, so another version counts as a change.
//
// Operations on different resources may run concurrently; the runner serialises the operations on one resource. When
// ctx ends, the driver stops soon and returns an error; the operation can be repeated. Errors are of type *writ.Error;
// any other error counts as INTERNAL.
type Driver interface {
	// Describe returns the module and name of the driver, and whether it only simulates.
	Describe() writ.NodeDriver
	// Do executes the operation.
	Do(ctx context.Context, request Request) (Outcome, error)
	// Observe inspects one resource without changing it. A missing resource is not an error. If only the state of the
	// resource cannot be determined, Observe returns an error and an observation with the state catalog.Unclear.
	Observe(ctx context.Context, resource writ.ResourceID) (Observation, error)
	// List returns every resource that the driver finds on this host, including resources that it did not create.
	List(ctx context.Context) ([]writ.ResourceID, error)
}
