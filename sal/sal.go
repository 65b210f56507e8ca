// Package sal is the contract between a runner and the drivers that touch the host: what every driver promises, whatever tool is
// behind it. It must not know who asked, nor queues, nor retries. The conformance suite of drivers is sal/saltest.
package sal

import (
	"context"

	"writ"
	"writ/sal/catalog"
)

// Request asks a driver to carry out one operation.
type Request struct {
	Operation *catalog.Operation
	Resource  writ.ResourceID // zero if the operation names no resource
	UID       writ.UID
	Args      any // a pointer to the operation's argument struct of package catalog
	// Key is the job's identity, "<run>-<seq>-<attempt>". Drivers that count effects count them by it; nothing else may depend on it.
	Key string
	// Origin is where the content comes from that the operation copies, nil if that is on this host.
	Origin Origin
	// Progress may be called with a sentence about how far the work is, which is shown to whoever watches the run; it is never nil. Of what is
	// said more often than every ten seconds only the last counts.
	Progress func(text string)
}

// Outcome is what an operation did.
type Outcome struct {
	Change writ.Change
	Values map[string]any // the fields of the operation's result schema
}

// Observation is what is there now of one resource.
type Observation struct {
	Exists bool
	UID    writ.UID
	State  string         // the driver's word, "running"; catalog.Gone if there is a record, and not what it is about
	Values map[string]any // as in Outcome
}

// Driver carries out the operations of one module on this host.
//
// Every operation that is declared as repeatable is "make it so": it may be called again after a crash at any point, and asking
// for what already is, is success with ChangeUnchanged. A Make operation compares with what the last one asked for, not with what
// Alter operations did since, so that a script that makes a volume of 10 GiB and then lets it grow to 20 changes nothing when it
// runs again: equal is unchanged, another mutable field is updated, another immutable one IMMUTABLE_FIELD. What the driver has a record of
// and cannot find any more (catalog.Gone) is made again, which is ChangeCreated, or the error says what stands against that.
//
// A resource has one UID for life. Any operation that names another one than it has is RESOURCE_CONFLICT, also a Remove: what
// somebody else made meanwhile is not ours. Remove of what is not there is success with ChangeUnchanged; Alter and Look of it are
// RESOURCE_UNKNOWN, and so is a handle or name among the arguments that leads nowhere. Look returns ChangeNone.
//
// A catalog.Text among the arguments may be a secret. Its value is for the tool: a driver reveals it at the place where it hands it over,
// and neither records, logs, answers nor derives anything from it. Records have its name and version, so another version is a change.
//
// Operations on different resources may be called at the same time; the runner serialises those on one resource. When ctx ends the
// driver stops soon and returns an error; the operation can be called again. Errors are *writ.Error with a code of the table; any
// other error counts as INTERNAL.
type Driver interface {
	// Describe says which module the driver serves, its name, and whether it only simulates.
	Describe() writ.NodeDriver
	// Do carries out the operation.
	Do(ctx context.Context, request Request) (Outcome, error)
	// Observe inspects one resource and changes nothing. A missing resource is not an error. If the driver cannot determine
	// only the state, Observe returns an error and an observation with catalog.Unclear.
	Observe(ctx context.Context, resource writ.ResourceID) (Observation, error)
	// List returns every resource that the driver finds on this host, whoever made it.
	List(ctx context.Context) ([]writ.ResourceID, error)
}
