package sal

import (
	"slices"
	"strings"
)

// IsAttribute reports whether copies and archives have an extended attribute: those that belong to the content, and not to who keeps it.
func IsAttribute(name string) bool {
	return strings.HasPrefix(name, "user.") || slices.Contains([]string{"security.capability", "system.posix_acl_access", "system.posix_acl_default"}, name)
}
