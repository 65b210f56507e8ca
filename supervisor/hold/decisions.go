// Package hold keeps the decisions that hold or release work, and the rules for new decisions. Package identity
// verifies the signatures of decisions, and package workflow makes runs wait.
package hold

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/placement"
)

// Limits of the decisions about deployments, per project and in total. The numbers of projects and operations are
// limited already. Members of a project must not use up the space that an operator needs to hold a wider scope.
const (
	maxHeldDeployments    = 20
	maxHeldDeploymentsAll = 2000
)

// Decisions holds the decisions of the journal in memory. It is safe for concurrent use. Create it with New.
type Decisions struct {
	datacenter func() string // name of the datacenter
	now        atomic.Pointer[snapshot]
}

type snapshot struct {
	all      identity.Holds
	revision int64                             // of the newest decision
	wide     identity.Holds                    // decisions without a project
	of       map[writ.ProjectID]identity.Holds // by project: its decisions and wide; only projects with decisions
	changes  int                               // since this supervisor started
}

// New returns an empty list of decisions. datacenter returns the name of the datacenter.
func New(datacenter func() string) *Decisions {
	h := &Decisions{datacenter: datacenter}
	h.now.Store(new(snapshot))
	return h
}

// Set replaces the decisions. changes is the number of decisions since this supervisor started.
func (h *Decisions) Set(all identity.Holds, revision int64, changes int) {
	next := &snapshot{all: all, revision: revision, of: make(map[writ.ProjectID]identity.Holds), changes: changes}
	for _, d := range all {
		if d.Project == "" {
			next.wide = append(next.wide, d)
		}
	}
	for _, d := range all {
		if d.Project == "" {
			continue
		}
		if next.of[d.Project] == nil {
			next.of[d.Project] = slices.Clone(next.wide)
		}
		next.of[d.Project] = append(next.of[d.Project], d)
	}
	h.now.Store(next)
}

// Over returns a hold that covers the scope `work`, or nil.
func (h *Decisions) Over(work identity.Scope) *identity.Hold {
	now := h.now.Load()
	if some, has := now.of[work.Project]; has {
		return some.First(work)
	}
	return now.wide.First(work)
}

// AboutDeployments reports whether a deployment of the project has a decision.
func (h *Decisions) AboutDeployments(project writ.ProjectID) bool {
	return slices.ContainsFunc(h.now.Load().of[project], func(d identity.Hold) bool { return d.Deployment != "" })
}

// Reason returns the wait reason of runs and calls under a hold.
func (h *Decisions) Reason(by *identity.Hold) writ.Reason {
	hold, last := by.Scope.Reason(h.datacenter(), by.ProjectName), by.Last()
	hold.By, hold.Since, hold.Text = last.Signer, last.Time.UTC().Truncate(time.Microsecond), last.Reason
	return writ.Reason{Code: writ.ReasonHold, Hold: &hold}
}

// Revision returns the revision of the newest decision.
func (h *Decisions) Revision() int64 { return h.now.Load().revision }

// Changes counts the decisions since this supervisor started.
func (h *Decisions) Changes() int { return h.now.Load().changes }

// All returns all decisions.
func (h *Decisions) All() identity.Holds { return h.now.Load().all }

// CheckRoom returns an error if the limits do not allow another decision about the scope `next`.
func CheckRoom(all identity.Holds, next identity.Scope) error {
	if next.Deployment == "" {
		return nil
	}
	ofProject, inAll := 0, 0
	for _, h := range all {
		if h.Deployment != "" {
			inAll++
			if h.Project == next.Project {
				ofProject++
			}
		}
	}
	if ofProject < maxHeldDeployments && inAll < maxHeldDeploymentsAll {
		return nil
	}
	return writ.Errorf(writ.CodeConflict,
		"there are decisions about %d deployments of the project, and %d in all; more are not kept", ofProject, inAll).
		WithHint("hold the project as a whole")
}

// IsForgotten reports whether a release can be deleted. Every statement signed before the release must have expired,
// and the release must not exempt its scope from a wider hold.
func IsForgotten(all identity.Holds, h identity.Hold, now time.Time) bool {
	if h.Held || now.Before(h.Last().Time.Add(identity.MaxValidity+2*identity.Skew)) {
		return false
	}
	return !all.Exempts(h.Scope)
}

// Remaining names the parts of a scope that are still on hold after its release, at most placement.MaxNamed.
func Remaining(all identity.Holds, released identity.Scope) (rest []string) {
	for i := range all {
		if h := &all[i]; h.Held && h.Overlaps(released) && !released.Within(h.Scope) && len(rest) < placement.MaxNamed {
			rest = append(rest, h.Text())
		}
	}
	return rest
}

// Superseded returns the error of a decision whose signer did not see the newest decision about the scope.
func Superseded(all identity.Holds, about *identity.Hold, seen int64) error {
	is := about.Text() + " is not on hold"
	if over := all.Over(about.Scope); len(over) > 0 {
		is = Text(over[0])
	}
	saw := "saw no earlier decision"
	if seen > 0 {
		saw = "saw the decision of " + time.UnixMicro(seen).UTC().Format(time.DateTime) + " UTC as the newest"
	}
	return writ.Errorf(writ.CodeConflict, "a newer decision about %s exists: the signer %s",
		about.Text(), saw).
		WithHint("%s; look with `writ hold list`, then decide", is)
}

// Text formats a hold: "alice has held the project shop since 12:00:05 UTC (the disks fail)".
func Text(h *identity.Hold) string { return TextSince(h, "has") }

// TextSince formats a hold, with "had" if it has ended and "has" otherwise.
func TextSince(h *identity.Hold, has string) string {
	last := h.Last()
	who := last.Signer
	if who == "" {
		who = "the supervisor itself"
	}
	text := fmt.Sprintf("%s %s held %s since %s UTC", who, has, h.Text(), last.Time.UTC().Format(time.TimeOnly))
	if last.Reason != "" {
		text += " (" + last.Reason + ")"
	}
	return text
}
