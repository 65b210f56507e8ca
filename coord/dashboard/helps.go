package dashboard

import (
	"strings"

	"writ/coord/reasons"
	"writ/identity"
	"writ/ledger"
)

// helps returns the command that helps a run which waits for a reason, "" if there is none that the reader's role allows.
func (m *moment) helps(reader Reader, run ledger.Run, why string) string {
	if !run.Ended.IsZero() {
		return ""
	}
	command := reasons.Next(why, run.ID, m.datacenter(run.Datacenter).Name)
	if !reader.may(identity.ActionAdmitNodes, "") {
		command = reasons.Shown(command)
	}
	allowed := true
	switch {
	case strings.HasPrefix(command, "writ release"):
		allowed = m.mayRelease(reader, command)
	case strings.HasPrefix(command, "writ node uncordon"):
		allowed = reader.may(identity.ActionScheduleNodes, "")
	case strings.HasPrefix(command, "writ node"):
		allowed = reader.All
	}
	if !allowed {
		return ""
	}
	return command
}

// mayRelease reports whether a page offers a reader a command that releases something. Of a hold that no datacenter tells now nothing is known of who
// made it: an operator may release any.
func (m *moment) mayRelease(reader Reader, command string) bool {
	for _, dc := range m.holds {
		for _, h := range dc.Holds {
			if h.Held && scopeOf(h).Release(dc.Name, h.ProjectName) == command {
				return mayRelease(reader, h)
			}
		}
	}
	return reader.may(identity.ActionScheduleNodes, "")
}
