package identity

import (
	"cmp"
	"slices"
	"strings"

	"writ"
)

// The decisions about a scope. A held scope starts no work: none of its jobs is sent until a release.
const (
	DecisionHold    = "hold"
	DecisionRelease = "release"
)

// Scope is a part of a datacenter's work. The zero value means all work of the datacenter. A call is represented as the
// scope of its project, deployment and operation.
type Scope struct {
	Project    writ.ProjectID `json:"project,omitempty"`
	Deployment string         `json:"deployment,omitempty"` // within Project
	Operation  string         `json:"operation,omitempty"`  // "machine.create", or "machine" for the whole module
}

// ScopeOf returns the scope of a hold or release statement.
func ScopeOf(s *Statement) Scope {
	switch s.Kind() {
	case "project":
		return Scope{Project: s.Seen.Project}
	case "deployment":
		return Scope{Project: s.Seen.Project, Deployment: s.ID()}
	case "operation":
		return Scope{Operation: s.ID()}
	default:
		return Scope{}
	}
}

// Statement sets Subject and Seen of a statement about the scope. revision is the result of Holds.Seen.
func (s Scope) Statement(st *Statement, dc writ.Datacenter, projectName string, revision int64) {
	st.Seen = Seen{Revision: revision}
	switch {
	case s.Deployment != "":
		st.Subject = "deployment/" + s.Deployment
	case s.Project != "":
		st.Subject = "project/" + string(s.Project)
	case s.Operation != "":
		st.Subject = "operation/" + s.Operation
	default:
		st.Subject, st.Seen.Name = "datacenter/"+string(dc.ID), dc.Name
	}
	if s.Project != "" {
		st.Seen.Project, st.Seen.ProjectName = s.Project, projectName
	}
}

// Within reports whether the other scope contains all of s.
func (s Scope) Within(of Scope) bool {
	switch {
	case of.Operation != "" && s.Operation != of.Operation && !strings.HasPrefix(s.Operation, of.Operation+"."):
		return false
	case of.Project != "" && s.Project != of.Project:
		return false
	default:
		return of.Deployment == "" || s.Deployment == of.Deployment
	}
}

// Overlaps reports whether both scopes can contain the same work.
func (s Scope) Overlaps(other Scope) bool {
	return s.Within(other) || other.Within(s) || (s.Operation == "") != (other.Operation == "")
}

// Text formats the scope for people: "the deployment web of the project shop".
func (s Scope) Text(projectName string) string { return s.Reason("", projectName).Scope() }

// Release returns the command that releases the scope in a datacenter. It returns "" if a name is unsafe in a shell.
func (s Scope) Release(datacenter, projectName string) string {
	return s.Reason(datacenter, projectName).Release()
}

// Reason returns the scope with the names of its datacenter and project, as part of a writ.Reason.
func (s Scope) Reason(datacenter, projectName string) writ.HoldReason {
	reason := writ.HoldReason{Datacenter: datacenter, Deployment: s.Deployment, Operation: s.Operation}
	if s.Project != "" {
		reason.Project = cmp.Or(projectName, string(s.Project))
	}
	return reason
}

// Hold is the newest decision about a scope: hold or release. A release also exempts the scope from earlier holds of
// wider scopes.
type Hold struct {
	Scope
	ProjectName string `json:"project_name,omitempty"`
	Held        bool   `json:"held"`
	// Revision orders the decisions about scopes of a datacenter. It is at least the time of the decision, in
	// microseconds.
	Revision int64 `json:"revision"`
	// ByOperator means that an operator of the datacenter holds the scope, so that the members of a project cannot
	// release it.
	ByOperator bool            `json:"by_operator,omitempty"`
	Decided    []writ.Decision `json:"decided"` // the latest decisions, oldest first
}

// Last returns the newest decision. If the supervisor was started with everything on hold, the decision has no signer.
func (h *Hold) Last() writ.Decision {
	if len(h.Decided) == 0 {
		return writ.Decision{}
	}
	return h.Decided[len(h.Decided)-1]
}

// Text formats the scope of the hold for people.
func (h *Hold) Text() string { return h.Scope.Text(h.ProjectName) }

// Holds contains the newest decision about each scope of a datacenter.
type Holds []Hold

// Of returns the newest decision about exactly s, or nil.
func (h Holds) Of(s Scope) *Hold {
	if i := slices.IndexFunc(h, func(d Hold) bool { return d.Scope == s }); i >= 0 {
		return &h[i]
	}
	return nil
}

// Seen returns the revision for a statement about s: the revision of the newest decision about s or a scope that
// contains it. A delayed statement is therefore rejected after another decision about one of these scopes. Decisions
// about parts of s do not matter.
func (h Holds) Seen(s Scope) (revision int64) {
	for _, d := range h {
		if s.Within(d.Scope) {
			revision = max(revision, d.Revision)
		}
	}
	return revision
}

// Over returns the holds that apply to all of s. It omits a hold if s, or a scope between s and the hold, was released
// after it.
func (h Holds) Over(s Scope) (over []*Hold) {
	for i := range h {
		if h[i].Held && s.Within(h[i].Scope) && !h.isExempted(s, &h[i]) {
			over = append(over, &h[i])
		}
	}
	return over
}

// First returns one hold that applies to all of s, or nil.
func (h Holds) First(s Scope) *Hold {
	for i := range h {
		if h[i].Held && s.Within(h[i].Scope) && !h.isExempted(s, &h[i]) {
			return &h[i]
		}
	}
	return nil
}

// Exempts reports whether s itself was released from a hold of a wider scope. The hold must still be in force for the
// rest of that scope.
func (h Holds) Exempts(s Scope) bool {
	own := h.Of(s)
	return own != nil && !own.Held && slices.ContainsFunc(h, func(wider Hold) bool {
		return wider.Held && wider.Revision < own.Revision && s.Within(wider.Scope)
	})
}

// isExempted reports whether a scope that contains s and lies within the held scope was released after the hold.
func (h Holds) isExempted(s Scope, hold *Hold) bool {
	return slices.ContainsFunc(h, func(d Hold) bool {
		return !d.Held && d.Revision > hold.Revision && s.Within(d.Scope) && d.Scope.Within(hold.Scope)
	})
}

func projectOfSeen(s *Statement) writ.ProjectID {
	if s.Kind() == "project" {
		return writ.ProjectID(s.ID())
	}
	return s.Seen.Project
}
