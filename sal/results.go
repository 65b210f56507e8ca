package sal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/internal/clip"
	"writ/sal/catalog"
)

// Ended is the result of a program that a call runs once.
type Ended struct {
	Exit   writ.Exit `json:"exit"`
	Stdout string    `json:"stdout,omitempty"` // the end of its output, without secrets
	Stderr string    `json:"stderr,omitempty"`
	// Unknown is the reason if the outcome of the program is unknown; the other fields are then empty.
	Unknown string `json:"unknown,omitempty"`
	// Returned is the number of the attempt that returned the result; 0 if none has. If the supervisor knows the failure
	// of this attempt, the program may be run again.
	Returned int       `json:"returned,omitempty"`
	Until    time.Time `json:"until"` // see CallHistory
}

// Resuming is a driver with operations that are executed at most once and continued after an interruption
// (catalog.Resume).
type Resuming interface {
	Driver
	// DeleteResult deletes the result of a request. The runner calls it after it has recorded the answer, and then
	// answers each further attempt of the call itself.
	DeleteResult(ctx context.Context, request Request) error
}

// keepResults is how long a result is kept after the last possible job of its call.
const keepResults = 24 * time.Hour

// Results stores the results of programs from their end until the runner has recorded the answer of the call. A result
// is in place before the record of its container is removed, so one of the two exists if the program may have run.
type Results struct {
	Dir  string // created when needed
	Step func(name string)
}

func (s *Results) records() *Records[Ended] { return &Records[Ended]{Dir: s.Dir, Step: s.Step} }

// keyOf returns the name of a result. It contains the UID of the call instead of the resource name, because later calls
// may use the same name.
func keyOf(resource writ.ResourceID, uid writ.UID) writ.ResourceID {
	return writ.ResourceID{Project: resource.Project, Kind: resource.Kind, Name: string(uid)}
}

// Find returns the stored result of a call, or nil if the program may run. The program may run if no result is stored,
// or if the supervisor knows the failure that the result reports. It may also run if the outcome is unknown and the
// call is Repeatable. If the program may run, Find deletes the stored result.
func (s *Results) Find(request Request) (*Ended, error) {
	r, err := s.records().Get(keyOf(request.Resource, request.UID))
	if err != nil || r == nil {
		return nil, err
	}
	known := r.Own.Returned != 0 && r.Own.Returned <= request.Call.Known
	if known || r.Own.Unknown != "" && request.Call.Repeatable {
		return nil, s.Remove(request)
	}
	return &r.Own, nil
}

// MarkReturned records that the attempt of a request returns the result, unless it has recorded an earlier attempt.
func (s *Results) MarkReturned(request Request, e *Ended) error {
	if e.Returned != 0 {
		return nil
	}
	e.Returned = request.Call.Number()
	return s.Put(request.Resource, request.UID, *e)
}

// DeleteReturned deletes the result of a call if the attempt of the request, or an earlier one, has returned it. See
// Resuming.
func (s *Results) DeleteReturned(request Request) error {
	r, err := s.records().Get(keyOf(request.Resource, request.UID))
	if err != nil || r == nil || r.Own.Returned == 0 || r.Own.Returned > request.Call.Number() {
		return err
	}
	return s.Remove(request)
}

// Put stores the result of a call.
func (s *Results) Put(resource writ.ResourceID, uid writ.UID, e Ended) error {
	return s.records().Put(&Record[Ended]{Resource: keyOf(resource, uid), UID: uid, Own: e})
}

// Remove deletes the result of a call. A missing result is not an error.
func (s *Results) Remove(request Request) error {
	return s.records().Remove(keyOf(request.Resource, request.UID))
}

// Prune deletes results that no job can request any more. newest is the history of a job that has just arrived. The
// clock of the node may be fast, so Prune uses newest.Until instead of now if it is earlier.
func (s *Results) Prune(now time.Time, newest CallHistory) error {
	if newest.Until.Before(now) {
		now = newest.Until
	}
	all, _, err := s.records().List()
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Own.Until.Add(keepResults).Before(now) {
			if err := s.records().Remove(r.Resource); err != nil {
				return err
			}
		}
	}
	return nil
}

// Outcome converts the result to the outcome of container.run. It returns OUTCOME_UNKNOWN if the outcome is unknown. It
// returns PROGRAM_FAILED if the exit code is not 0, unless the arguments set check to false.
func (e *Ended) Outcome(request Request, simulated bool) (Outcome, error) {
	args, _ := request.Args.(*catalog.ContainerRun)
	switch {
	case e.Unknown != "":
		return Outcome{}, writ.Errorf(writ.CodeOutcomeUnknown, "the outcome of the program of %s is unknown: %s",
			request.Resource, e.Unknown).
			WithHint("inspect the effects of the program; if repeating it is harmless, set idempotent: true in the call's options")
	case e.Exit.Code != 0 && (args == nil || args.Check):
		return Outcome{}, writ.Errorf(writ.CodeProgramFailed, "the program of %s ended with %s%s", request.Resource,
			e.Exit, e.said()).
			WithHint("mend the program; with check: false, the script gets the exit code instead")
	}
	return Outcome{Change: writ.ChangeUpdated, Values: catalog.Values(catalog.ContainerRan{
		Identity: catalog.Identify(request.Resource, request.UID, simulated), ExitCode: e.Exit.Code,
		Stdout: e.Stdout, Stderr: e.Stderr, OutOfMemory: e.Exit.OutOfMemory,
	})}, nil
}

// maxSaid limits the part of a program's output that an error message contains, in bytes.
const maxSaid = 1 << 10

// said returns the end of the program's error output for a message, or the end of its standard output if the error
// output is empty.
func (e *Ended) said() string {
	for _, output := range []struct{ name, text string }{{"error output", e.Stderr}, {"output", e.Stdout}} {
		if text := strings.TrimSpace(output.text); text != "" {
			return fmt.Sprintf("; its %s ends with: %s", output.name, clip.End(text, maxSaid))
		}
	}
	return ""
}
