// Package confine starts processes that have no more rights than they need: in a group of the kernel's, in a network namespace, as a user of
// their own, and with no way to become more than they are. It must not know what the processes do.
package confine

import "writ/internal/cgroup"

// Cell is what a process is in from its first breath on. The zero value is the place of whoever starts it.
type Cell struct {
	Groups    *cgroup.Groups // where its group is; nil for none
	Group     string         // its name, of a group that is there
	Namespace string         // path of a network namespace; "" for ours
}
