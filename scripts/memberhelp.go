package scripts

import (
	"fmt"
	"strings"

	"writ/internal/meant"
)

// maxMembers limits the members in a help text.
const maxMembers = 16

// memberHelp returns the help for an unknown member of owner: the closest member, otherwise the list of members.
func memberHelp(owner, name string, members []string) string {
	if closest := meant.Closest(name, members); closest != "" {
		return fmt.Sprintf("did you mean %q?", closest)
	}
	return memberList(owner, members)
}

// memberList formats the members of a module or value: "run has id, log and 3 more".
func memberList(owner string, members []string) string {
	switch more := len(members) - maxMembers; {
	case len(members) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("%s has %s and %d more", owner, strings.Join(members[:maxMembers], ", "), more)
	}
	return owner + " has " + strings.Join(members, ", ")
}

// MemberText lists all members of a built-in module, for people. It returns "" for an unknown module.
func MemberText(module string) string { return memberList("module "+module, membersOf(module)) }
