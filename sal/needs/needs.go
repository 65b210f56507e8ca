// Package needs is what drivers need of a host: each declares it once, and the runner that would use the driver, `writ doctor` and the
// manual have it from there. It knows how to look for programs, rights, room and parts of the kernel; it must not know what drivers do with
// them. Looking changes nothing that stays.
package needs

import (
	"context"
	"errors"
	"time"

	"writ"
)

// Need is one thing that a driver needs of its host.
type Need struct {
	Name  string // "the program qemu-img"
	Use   string // what there is not without it, "images of format qcow2 are refused"
	Fix   string // what to type, or to do where no command helps
	Vital bool   // without it the driver does nothing at all
	// Look returns what was found, in a few words, or why it is not as it should be. The hint of a *writ.Error replaces Fix.
	Look func(ctx context.Context) (found string, err error)
}

// Needy is a driver that needs something of its host. Any driver can be asked, also one that nothing else is done with.
type Needy interface {
	// Needs are all needs of the driver as it is configured. Their names, uses and fixes are the same on every host.
	Needs() []Need
}

// State is how it stands with a need.
type State string

// The states.
const (
	OK       State = "ok"
	Degraded State = "degraded" // the driver works, except for what Use says
	Missing  State = "missing"  // the driver does not work
)

// Finding is what was found of one need.
type Finding struct {
	Module string `json:"module"`
	Need   string `json:"need"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Use    string `json:"use,omitempty"` // what there is not because of it, "" if it is ok
	Fix    string `json:"fix,omitempty"` // likewise
}

// patience is how long a look may take.
const patience = 5 * time.Second

// Examine looks for all needs of a module, in their order.
func Examine(ctx context.Context, module string, all []Need) []Finding {
	found := make([]Finding, len(all))
	for i, n := range all {
		found[i] = n.examine(ctx, module)
	}
	return found
}

func (n Need) examine(ctx context.Context, module string) Finding {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	f := Finding{Module: module, Need: n.Name, State: OK}
	var err error
	if f.Detail, err = n.Look(ctx); err == nil {
		return f
	}
	f.State, f.Detail, f.Use, f.Fix = Degraded, err.Error(), n.Use, n.Fix
	if n.Vital {
		f.State = Missing
	}
	if e, ok := errors.AsType[*writ.Error](err); ok {
		f.Detail = e.Message
		if e.Hint != "" {
			f.Fix = e.Hint
		}
	}
	return f
}

// Refusal is the error about the first finding that keeps a module from working, nil if none does.
func Refusal(found []Finding) error {
	for _, f := range found {
		if f.State == Missing {
			return writ.Errorf(writ.CodeDriverMissing, "%s: %s", f.Need, f.Detail).WithHint("%s", f.Fix)
		}
	}
	return nil
}
