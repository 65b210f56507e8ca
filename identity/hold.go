package identity

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"writ"
)

// The decisions about a scope of work. What is on hold starts no work: no job of it is sent until it is released.
const (
	DecisionHold    = "hold"
	DecisionRelease = "release"
)

// Scope is a part of the work of a datacenter. The zero value is all of it. A call is a scope, too: of its project, its deployment and its operation.
type Scope struct {
	Project    writ.ProjectID `json:"project,omitempty"`
	Deployment string         `json:"deployment,omitempty"` // of the project
	Operation  string         `json:"operation,omitempty"`  // "machine.create", or "machine" for all of the module
}

// ScopeOf returns what a statement with one of the decisions is about.
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

// Statement fills in subject and what the signer saw of a statement about the scope: its datacenter, the name of its project, and the revision of
// Holds.Seen.
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

// Within reports whether everything of a scope is part of another one, as it is if both are the same.
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

// Overlaps reports whether some work may be part of both scopes.
func (s Scope) Overlaps(other Scope) bool {
	return s.Within(other) || other.Within(s) || (s.Operation == "") != (other.Operation == "")
}

// Text names the scope for people: "the deployment web of the project shop".
func (s Scope) Text(projectName string) string {
	switch {
	case s.Deployment != "":
		return fmt.Sprintf("the deployment %s of the project %s", s.Deployment, projectName)
	case s.Project != "":
		return "the project " + projectName
	case s.Operation != "":
		return "the operation " + s.Operation
	default:
		return "the datacenter"
	}
}

// Release is the command that releases the scope in a datacenter. It is "" if a name in it is none that shells take as it is: somebody may have made
// it up who wants a person to type it.
func (s Scope) Release(datacenter, projectName string) string {
	command := "writ release"
	for _, flag := range []struct {
		name, value string
		valid       func(string) bool
	}{
		{"--dc", datacenter, writ.ValidName}, {"--project", projectName, writ.ValidName}, {"--deployment", s.Deployment, writ.ValidName},
		{"--operation", s.Operation, validOperation},
	} {
		switch {
		case flag.value == "":
		case !flag.valid(flag.value):
			return ""
		default:
			command += " " + flag.name + " " + flag.value
		}
	}
	return command
}

// Hold is the newest decision about a scope: that its work is on hold, or that it is released. A release also takes the scope out of the wider
// holds that were there before.
type Hold struct {
	Scope
	ProjectName string `json:"project_name,omitempty"`
	Held        bool   `json:"held"`
	// Revision orders the decisions of a datacenter about scopes. It is at least the time of the decision, in microseconds.
	Revision int64 `json:"revision"`
	// ByOperator says that an operator of the datacenter holds it, so that the people of a project cannot release it.
	ByOperator bool            `json:"by_operator,omitempty"`
	Decided    []writ.Decision `json:"decided"` // the last ones, oldest first
}

// Last is the newest decision. That of a supervisor which was started held has no signer.
func (h *Hold) Last() writ.Decision {
	if len(h.Decided) == 0 {
		return writ.Decision{}
	}
	return h.Decided[len(h.Decided)-1]
}

// Text names the scope of the hold for people.
func (h *Hold) Text() string { return h.Scope.Text(h.ProjectName) }

// Holds are the newest decisions of a datacenter about scopes, one for each.
type Holds []Hold

// Of returns the newest decision about exactly a scope, nil if there is none.
func (h Holds) Of(s Scope) *Hold {
	if i := slices.IndexFunc(h, func(d Hold) bool { return d.Scope == s }); i >= 0 {
		return &h[i]
	}
	return nil
}

// Seen is the revision that a statement about a scope names: that of the newest decision about the scope, or about one that it is part of. So a
// statement that was kept back counts no more once somebody has decided about either. What was decided about parts of it does not matter.
func (h Holds) Seen(s Scope) (revision int64) {
	for _, d := range h {
		if s.Within(d.Scope) {
			revision = max(revision, d.Revision)
		}
	}
	return revision
}

// Over returns the holds under which a scope is as a whole. A hold is not among them if the scope, or a wider one within the hold, was released
// after it.
func (h Holds) Over(s Scope) (over []*Hold) {
	for i := range h {
		if h[i].Held && s.Within(h[i].Scope) && !h.takenOut(s, &h[i]) {
			over = append(over, &h[i])
		}
	}
	return over
}

// First returns one of the holds under which a scope is, nil if there is none.
func (h Holds) First(s Scope) *Hold {
	for i := range h {
		if h[i].Held && s.Within(h[i].Scope) && !h.takenOut(s, &h[i]) {
			return &h[i]
		}
	}
	return nil
}

// Exempts reports whether a scope was released and so taken out of a wider hold, which holds the rest.
func (h Holds) Exempts(s Scope) bool {
	own := h.Of(s)
	return own != nil && !own.Held && slices.ContainsFunc(h, func(wider Hold) bool {
		return wider.Held && wider.Revision < own.Revision && s.Within(wider.Scope)
	})
}

// takenOut reports whether a release that came after a hold took a part out of it which has all of a scope.
func (h Holds) takenOut(s Scope, hold *Hold) bool {
	return slices.ContainsFunc(h, func(d Hold) bool {
		return !d.Held && d.Revision > hold.Revision && s.Within(d.Scope) && d.Scope.Within(hold.Scope)
	})
}

var workPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}(\.[a-z][a-z0-9_]{0,31})?$`)

// validOperation reports whether s is written as the name of an operation, or of a module.
func validOperation(s string) bool { return workPattern.MatchString(s) }

func projectOfSeen(s *Statement) writ.ProjectID {
	if s.Kind() == "project" {
		return writ.ProjectID(s.ID())
	}
	return s.Seen.Project
}
