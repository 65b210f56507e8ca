package interpreter

import (
	"writ/internal/meant"
)

// MemberText lists all members of a built-in module, for people. It returns "" for an unknown module.
func MemberText(module string) string { return meant.Members("module "+module, MemberNames(module)) }
