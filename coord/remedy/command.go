package remedy

import "writ"

// Verb names the command of a command line, without its arguments.
type Verb string

// The verbs of commands that help.
const (
	ListDatacenters Verb = "dc list"
	ListNodes       Verb = "node list"
	ShowNode        Verb = "node show"
	NodeLogs        Verb = "node logs"
	ApproveNode     Verb = "node approve"
	UncordonNode    Verb = "node uncordon"
	DeclareLost     Verb = "node lost"
	Release         Verb = "release"
	ExplainRun      Verb = "run explain"
	CancelRun       Verb = "run cancel"
	Logs            Verb = "logs"
	ShowResource    Verb = "resource show"
)

// Command is a command line for a person, made of valid names only. Commands can be compared; the zero Command is
// empty.
type Command struct {
	Verb Verb
	Line string // "writ node show n1 --dc ams1"

	node, datacenter string
	removed          bool // the node is removed, so it does not continue if it returns
}

// IsZero reports whether the command is empty.
func (c Command) IsZero() bool { return c.Line == "" }

// MarshalText returns the command line.
func (c Command) MarshalText() ([]byte, error) { return []byte(c.Line), nil }

// Effect describes the effect of a command that needs a decision of its reader. It returns "" for other commands.
func (c Command) Effect() string {
	switch c.Verb {
	case DeclareLost:
		return "if the machine never comes back: declares it lost; its calls fail or move, the names of its resources are free"
	case CancelRun:
		return "if the call hangs: ends it and the run now"
	}
	return ""
}

// First returns the step to try before a command that cannot be undone, or an empty string for other commands.
func (c Command) First() string {
	if c.Verb == DeclareLost && !c.removed {
		return "start its machine and its runner: the node then continues with its calls and resources"
	}
	return ""
}

// WithoutLoss replaces the declaration of a lost node by "writ node show", for readers without the right to declare it.
func (c Command) WithoutLoss() Command {
	if c.Verb == DeclareLost {
		return Node(ShowNode, c.node, c.datacenter)
	}
	return c
}

// List returns a command that needs no name.
func List(verb Verb) Command { return Command{Verb: verb, Line: "writ " + string(verb)} }

// Node returns a command for a node. An invalid datacenter name is omitted. For an invalid node name, which another
// process may have chosen, Node returns "writ node list".
func Node(verb Verb, node, datacenter string) Command {
	if !writ.ValidName(node) {
		return List(ListNodes)
	}
	c := Command{Verb: verb, Line: "writ " + string(verb) + " " + node, node: node, datacenter: datacenter}
	if writ.ValidName(datacenter) {
		c.Line += " --dc " + datacenter
	}
	return c
}

// Run returns a command for a run, the zero Command for an invalid id.
func Run(verb Verb, run writ.RunID) Command {
	if !run.Valid() {
		return Command{}
	}
	return Command{Verb: verb, Line: "writ " + string(verb) + " " + string(run)}
}

// ForNode returns the command for a node that takes no work: "writ node lost" if its state is lost or removed,
// otherwise "writ node show". The state is a liveness or an admission.
func ForNode(node, state, datacenter string) Command {
	switch state {
	case string(writ.LivenessLost):
		return Node(DeclareLost, node, datacenter)
	case string(writ.AdmissionRemoved):
		c := Node(DeclareLost, node, datacenter)
		c.removed = true
		return c
	}
	return Node(ShowNode, node, datacenter)
}
