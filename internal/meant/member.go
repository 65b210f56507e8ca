package meant

import (
	"fmt"
	"strings"
)

// maxMembers limits the members in a help text.
const maxMembers = 16

// Member returns the help for an unknown member of owner: the closest member, otherwise the list of members.
func Member(owner, name string, members []string) string {
	if closest := Closest(name, members); closest != "" {
		return fmt.Sprintf("did you mean %q?", closest)
	}
	return Members(owner, members)
}

// Members formats the members of a module or value: "run has id, log and 3 more".
func Members(owner string, members []string) string {
	switch more := len(members) - maxMembers; {
	case len(members) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("%s has %s and %d more", owner, strings.Join(members[:maxMembers], ", "), more)
	}
	return owner + " has " + strings.Join(members, ", ")
}
