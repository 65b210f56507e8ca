// Package reasons knows which command helps what waits, by the sentence that says why it waits. It knows no run, node or datacenter beyond that sentence.
package reasons

import (
	"regexp"
	"strings"

	"writ"
)

// A reason comes over a coordinator, so it may be made up. Only what cannot mean anything else to a shell becomes part of a command: names of their
// proper form, ids, and the command that releases a hold.
var (
	release = regexp.MustCompile(`is on hold \((writ release(?: --(?:dc|project|deployment|operation) [a-z0-9][a-z0-9._-]*)*)\): `)
	closed  = regexp.MustCompile(`(?:^|[ ,])([a-z0-9][a-z0-9-]*)(?: and [0-9]+ more)?: is (?:cordoned|draining)(?:$|[;,])`)
	ill     = regexp.MustCompile(`(?:node|on) ([a-z0-9][a-z0-9-]*), which ((?:is|takes no work)[a-z ]*)`)
	lost    = regexp.MustCompile(`(?:its node ([a-z0-9][a-z0-9-]*) is lost; |[ ,]([a-z0-9][a-z0-9-]*) \(which is lost\))`)
	nodes   = regexp.MustCompile(`(?:^|[ (])nodes?(?:[ ,:;)]|$)`) // the word, not a part of a name
)

// message finds where a reason of the supervisor ends and a message begins: of a script that ends, or of the failed attempt of a call. Scripts, guests
// and servers choose words of messages.
var message = regexp.MustCompile(`(?:^|; )ending: |, after [A-Z][A-Z_]+: `)

// ownWords returns a reason without the message at its end.
func ownWords(why string) string {
	if at := message.FindStringIndex(why); at != nil {
		return why[:at[0]]
	}
	return why
}

// Away begins the reason of a run whose datacenter cannot be asked. What the datacenter said last may follow it.
const Away = "its datacenter is away"

// Halted begins the reason of a run whose datacenter is connected and does not work. What it said last may follow it.
const Halted = "its datacenter cannot go on"

// Next returns the command that helps what waits for a reason, "" if the reason names nothing that a command is about. own is the run that waits.
// datacenter is the name of its datacenter, "" if that is not known.
func Next(why string, own writ.RunID, datacenter string) string {
	if strings.HasPrefix(why, Away) || strings.HasPrefix(why, Halted) || strings.HasPrefix(why, "waits for the datacenter ") {
		return "writ dc list"
	}
	why = ownWords(why)
	if found := release.FindStringSubmatch(why); found != nil {
		return found[1]
	}
	if other := runIn(why, own); other != "" {
		return "writ run explain " + string(other)
	}
	if found := closed.FindStringSubmatch(why); found != nil {
		return AboutNode("uncordon", found[1], datacenter)
	}
	if found := ill.FindStringSubmatch(why); found != nil {
		return ForNode(found[1], found[2], datacenter)
	}
	if found := lost.FindStringSubmatch(why); found != nil {
		return ForNode(found[1]+found[2], isLost, datacenter)
	}
	if nodes.MatchString(why) {
		return "writ node list"
	}
	return ""
}

// isLost and wasRemoved are the states of a node whose open calls only "writ node lost" ends.
const (
	isLost     = "is lost"
	wasRemoved = "is removed"
)

// nodeLost begins the command that declares a node lost.
const nodeLost = "writ node lost "

// ForNode returns the command for a node that takes no work. It is "writ node lost" for a lost or removed node, otherwise "writ node show". The
// parameter why is the state of the node, like "is lost". For an invalid name, ForNode returns "writ node list".
func ForNode(name, why, datacenter string) string {
	switch {
	case !writ.ValidName(name):
		return "writ node list"
	case strings.HasPrefix(why, isLost), strings.HasPrefix(why, wasRemoved):
		return AboutNode("lost", name, datacenter)
	}
	return AboutNode("show", name, datacenter)
}

// Does returns the effect of a command, for a command that needs a decision of its reader, otherwise "".
func Does(command string) string {
	switch {
	case strings.HasPrefix(command, nodeLost):
		return "if the machine never comes back: declares it lost; its calls fail or move, the names of its resources are free"
	case strings.HasPrefix(command, "writ run cancel "):
		return "if the call hangs: ends it and the run now"
	}
	return ""
}

// Shown replaces "writ node lost" by "writ node show", for a reader without the right to declare nodes lost.
func Shown(command string) string {
	if node, ok := strings.CutPrefix(command, nodeLost); ok {
		return "writ node show " + node
	}
	return command
}

// Without returns a reason without the command that it names, for a place where the command stands beside it.
func Without(why, command string) string {
	if command == "" {
		return why
	}
	short, _, _ := strings.Cut(command, " --dc ") // supervisors name no datacenter in commands about nodes
	return strings.NewReplacer(" ("+command+")", "", " ("+short+")", "").Replace(why)
}

// runIn returns the first run that a sentence names besides the one that it is about.
func runIn(why string, own writ.RunID) writ.RunID {
	for _, word := range strings.FieldsFunc(why, func(r rune) bool { return strings.ContainsRune(" ,:;", r) }) {
		if id := writ.RunID(word); id.Valid() && id != own {
			return id
		}
	}
	return ""
}

// AboutNode returns the command with a verb like "show" for a node. The datacenter is left out if its name is invalid.
func AboutNode(verb, node, datacenter string) string {
	command := "writ node " + verb + " " + node
	if writ.ValidName(datacenter) {
		command += " --dc " + datacenter
	}
	return command
}
