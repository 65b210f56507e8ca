package sal

import (
	"slices"
	"strings"
)

// IsAttribute reports whether copies and archives include an extended attribute. They include the attributes of the
// content, but omit the attributes of the host.
func IsAttribute(name string) bool {
	return strings.HasPrefix(name, "user.") ||
		slices.Contains([]string{"security.capability", "system.posix_acl_access", "system.posix_acl_default"}, name)
}
