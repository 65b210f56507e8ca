// Package needs declares the requirements of drivers for their host. Each driver declares its requirements once, for
// the runner that starts it, for `writ doctor` and for the manual. The package checks for programs, privileges, disk
// space and kernel features. It does not depend on how drivers use them. Checks have no lasting effect.
package needs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"writ"
)

// Need is one requirement of a driver.
type Need struct {
	Name string // "the program qemu-img"
	Use  string // effect if the requirement is not met: "images of format qcow2 are refused"
	Fix  string // command, or instruction if no command helps
	// Rights replaces Fix if Look fails with fs.ErrPermission. The default is RightsFix.
	Rights string
	Vital  bool // the driver does not work if the requirement is not met
	// Look returns a short description of the finding, or an error if the requirement is not met. The hint of a
	// *writ.Error replaces Fix.
	Look func(ctx context.Context) (found string, err error)
}

// Needy is a driver with requirements. Needs may be called before any other method of the driver.
type Needy interface {
	// Needs returns all requirements of the configured driver. Their names, uses and fixes are the same on every host.
	Needs() []Need
}

// State is the result of a check.
type State string

// The results of checks.
const (
	OK       State = "ok"
	Degraded State = "degraded" // the driver works, with the limitation in Use
	Missing  State = "missing"  // the driver does not work
)

// Finding is the result of checking one requirement.
type Finding struct {
	Module string `json:"module"`
	Need   string `json:"need"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Use    string `json:"use,omitempty"` // the effect of the unmet requirement, "" if State is OK
	Fix    string `json:"fix,omitempty"` // the fix, "" if State is OK
}

// RightsFix is the fix for a check that fails because this process lacks permissions.
const RightsFix = "run the node as root, with all capabilities"

// patience limits the duration of one check.
const patience = 5 * time.Second

// Examine checks all requirements of a module, in their order.
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
	if errors.Is(err, fs.ErrPermission) {
		f.Fix = cmp.Or(n.Rights, RightsFix)
	}
	if e, ok := errors.AsType[*writ.Error](err); ok {
		f.Detail = e.Message
		if e.Hint != "" {
			f.Fix = e.Hint
		}
	}
	return f
}

// Refusal returns an error for the first finding that prevents a module from working, or nil.
func Refusal(found []Finding) error {
	for _, f := range found {
		if f.State == Missing {
			return writ.Errorf(writ.CodeDriverMissing, "%s: %s", f.Need, f.Detail).WithHint("%s", f.Fix)
		}
	}
	return nil
}
