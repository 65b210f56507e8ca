package snapshot

import (
	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/remedy"
	"writ/identity"
	"writ/ledger"
)

// Remedy returns the command that removes the reason why a run waits. It returns the zero Command if there is no such
// command, or if the reader's role does not permit it.
func (m *Snapshot) Remedy(reader page.Reader, run ledger.Run, why writ.Reason) remedy.Command {
	if !run.Ended.IsZero() {
		return remedy.Command{}
	}
	command := remedy.For(why, run.ID, m.Datacenter(run.Datacenter).Name)
	if !reader.Allows(identity.ActionAdmitNodes, "") {
		command = command.WithoutLoss()
	}
	allowed := true
	switch command.Verb {
	case remedy.Release:
		allowed = m.mayRelease(reader, command.Line)
	case remedy.UncordonNode:
		allowed = reader.Allows(identity.ActionScheduleNodes, "")
	case remedy.ListNodes, remedy.ShowNode, remedy.DeclareLost:
		allowed = reader.All
	}
	if !allowed {
		return remedy.Command{}
	}
	return command
}

// SentenceBeside returns the sentence of a reason that is shown beside command. The sentence contains a command only if
// command is zero.
func SentenceBeside(why writ.Reason, command remedy.Command) string {
	if command.IsZero() {
		return why.String()
	}
	return why.Brief()
}

// mayRelease reports whether a page offers the command that releases a hold to a reader. If no datacenter lists the
// hold, its origin is unknown, and the command is offered to operators only.
func (m *Snapshot) mayRelease(reader page.Reader, command string) bool {
	for _, dc := range m.Holds {
		for _, h := range dc.Holds {
			if h.Held && scopeOf(h).Release(dc.Name, h.ProjectName) == command {
				return mayRelease(reader, h)
			}
		}
	}
	return reader.Allows(identity.ActionScheduleNodes, "")
}
