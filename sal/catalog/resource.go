package catalog

import "writ"

// Identity is what every handle to a resource offers.
type Identity struct {
	Name string `writ:"name,required" help:"the name it was made under"`
	UID  string `writ:"uid,required" help:"the id it got when it was made; a later resource of the same name has another"`
	// Node is filled in by the supervisor, which knows the names of nodes. Drivers leave it empty.
	Node      string `writ:"node" help:"the node that has it"`
	Simulated bool   `writ:"simulated,required" help:"whether a simulated driver answered: nothing of it exists outside its records"`
}

// Identify returns the identity of a resource as its driver knows it.
func Identify(resource writ.ResourceID, uid writ.UID, simulated bool) Identity {
	return Identity{Name: resource.Name, UID: string(uid), Simulated: simulated}
}

// Nothing is an argument or result struct without fields.
type Nothing struct{}

// Stop says how a machine or container is to be stopped.
type Stop struct {
	GraceSeconds int64 `writ:"grace_seconds,default=30,max=3600,min=0" help:"how long it may take to end by itself before it is cut off, in seconds; 0 cuts it off at once"`
}

// Snapshot names a snapshot.
type Snapshot struct {
	Snapshot string `writ:"snapshot,required,form=name" help:"the snapshot's name within its resource"`
}

// Tail says how much of a log is wanted.
type Tail struct {
	Lines int64 `writ:"lines,default=100,min=1,max=1000" help:"how many lines from the end"`
}
