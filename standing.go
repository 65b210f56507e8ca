package writ

import (
	"fmt"
	"slices"
)

// Standing is the condition of a resource at the last operation on it or the last scan of its node.
type Standing struct {
	// State is running, paused or stopped, or ready for a resource that does not run. It is gone if the node lost the
	// resource, unknown if the driver cannot determine the state, and "" before the first report. Other values name
	// unfinished work, such as making.
	State string `json:"state,omitempty"`
	// Address is the endpoint for clients: an IP address, "host:port", or the range of a network. It may be empty.
	Address string `json:"address,omitempty"`
	// IPv4 is the resource's address on the first of its networks that has IPv4.
	IPv4 string `json:"ipv4,omitempty"`
	// MoreAddresses lists the resource's addresses on its other networks, IPv6 first.
	MoreAddresses []string    `json:"more_addresses,omitempty"`
	Published     []Published `json:"published,omitempty"`
	Health        string      `json:"health,omitempty"` // of a container with a health check: starting, healthy or unhealthy
	// Exit reports how a container's program last ended by itself. It is nil for other resources, and before the first
	// end.
	Exit *Exit `json:"exit,omitempty"`
}

// Equal reports whether s and o are the same.
func (s Standing) Equal(o Standing) bool {
	return (s.Exit == o.Exit || s.Exit != nil && o.Exit != nil && *s.Exit == *o.Exit) &&
		s.State == o.State && s.Address == o.Address && s.IPv4 == o.IPv4 && s.Health == o.Health &&
		slices.Equal(s.MoreAddresses, o.MoreAddresses) && slices.Equal(s.Published, o.Published)
}

// Published is a port of a resource at one address of its node.
type Published struct {
	Address  string `json:"address"` // an IP address of the node
	Port     int64  `json:"port"`    // of the node
	To       int64  `json:"to"`      // port that the resource's program listens on
	Protocol string `json:"protocol"`
}

// Exit reports how a program ended.
type Exit struct {
	Code        int64 `json:"code"`                    // 0 for success, 137 for a killed program
	OutOfMemory bool  `json:"out_of_memory,omitempty"` // the kernel killed one of its processes at the memory limit
}

// String formats the exit as part of a sentence.
func (e Exit) String() string {
	switch {
	case !e.OutOfMemory:
		return fmt.Sprintf("exit code %d", e.Code)
	case e.Code == 137: // SIGKILL
		return fmt.Sprintf("exit code %d, killed by the kernel at its memory limit", e.Code)
	default:
		return fmt.Sprintf("exit code %d, after the kernel killed one of its processes at the memory limit", e.Code)
	}
}
