package sal

import (
	"slices"
	"strings"
)

// IsAttribute reports whether copies and archives include the extended attribute `name`. They include user attributes,
// file capabilities and POSIX ACLs. They omit all others, such as SELinux labels, which belong to the host.
func IsAttribute(name string) bool {
	return strings.HasPrefix(name, "user.") ||
		slices.Contains([]string{"security.capability", "system.posix_acl_access", "system.posix_acl_default"}, name)
}
