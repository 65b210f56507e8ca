package catalog

import "writ"

// Identity holds the fields of every handle.
type Identity struct {
	Name string `writ:"name,required" help:"its name"`
	UID  string `writ:"uid,required" help:"its id, set at its creation; a later resource with the same name has another id"`
	// Node is set by the supervisor, which knows the names of nodes. Drivers leave it empty.
	Node      string `writ:"node" help:"its node"`
	Simulated bool   `writ:"simulated,required" help:"whether the driver is simulated: the resource then exists only in its records"`
}

// Identify returns the identity of a resource without its node.
func Identify(resource writ.ResourceID, uid writ.UID, simulated bool) Identity {
	return Identity{Name: resource.Name, UID: string(uid), Simulated: simulated}
}

// IPv4 holds the result fields of machines and containers for networks with ipv4.
type IPv4 struct {
	First string   `writ:"ipv4" help:"its IPv4 address on the first of its networks that has ipv4"`
	All   []string `writ:"ipv4_addresses" help:"its IPv4 address on each of its networks that has ipv4"`
}

// IPv4Of returns the fields for addresses, which are in the order of the networks.
func IPv4Of(addresses []string) IPv4 {
	if len(addresses) == 0 {
		return IPv4{}
	}
	return IPv4{First: addresses[0], All: addresses}
}

// Common states of resources, in addition to the states that drivers define.
const (
	Ready    = "ready"    // complete; for resources that do not run
	Deleting = "deleting" // the deletion has begun and not ended
	Unclear  = "unknown"  // the driver cannot reach the program that manages the resource
	// The resource or its content vanished without an operation; its Make operation creates it again.
	Gone = "gone"
)

// StandingOf returns the state, addresses and ports of a resource from the values of an operation or its driver. If the
// values contain no state, the state is Ready.
func StandingOf(values map[string]any) writ.Standing {
	var s writ.Standing
	if s.State, _ = values["state"].(string); s.State == "" {
		s.State = Ready
	}
	if s.Address, _ = values["address"].(string); s.Address == "" {
		s.Address, _ = values["subnet"].(string)
	}
	s.IPv4, _ = values["ipv4"].(string)
	for _, field := range []string{"addresses", "ipv4_addresses"} { // the first of each is Address or IPv4
		list, _ := values[field].([]any)
		for _, one := range list[min(len(list), 1):] {
			if address, ok := one.(string); ok {
				s.MoreAddresses = append(s.MoreAddresses, address)
			}
		}
	}
	s.Published = publishedOf(values["published"])
	s.Health, _ = values["health"].(string)
	if code, given := values["last_exit_code"].(int64); given && code != NeverEnded {
		s.Exit = &writ.Exit{Code: code}
		s.Exit.OutOfMemory, _ = values["out_of_memory"].(bool)
	}
	return s
}

// Nothing is an argument or result struct without fields.
type Nothing struct{}

// Stop holds the arguments of machine.stop and container.stop.
type Stop struct {
	GraceSeconds int64 `writ:"grace_seconds,default=30,max=3600,min=0,waits" help:"time to exit before it is killed, in seconds; 0 kills it at once"`
}

// Snapshot names a snapshot.
type Snapshot struct {
	Snapshot string `writ:"snapshot,required,form=name" help:"the snapshot's name within its resource"`
}

// LogPart selects a part of a log. Fields added later have no defaults, so that calls of older scripts keep their
// hashes.
type LogPart struct {
	Lines       int64  `writ:"lines,default=100,min=1,max=1000" help:"maximum number of lines: the last ones or, with after, the next ones"`
	After       string `writ:"after,form=position,max=64" help:"a position from the field next of an earlier result: reads from there on"`
	WaitSeconds int64  `writ:"wait_seconds,min=0,max=60,waits" help:"maximum wait for text after the position, or for another state, in seconds"`
	MaxKiB      int64  `writ:"max_kib,min=0,max=48" help:"maximum length of the text, in KiB; 0 means 48"`
}

// LogText is the selected part of a log.
type LogText struct {
	Text string `writ:"text,required" help:"lines as they were written, without invalid bytes; the last one may continue in the next part"`
	Next string `writ:"next,required" help:"the position after the text, for after"`
	Lost bool   `writ:"lost,required" help:"whether text between after and this text may be lost; this text is then the oldest available"`
	More bool   `writ:"more,required" help:"whether more text is available"`
}
