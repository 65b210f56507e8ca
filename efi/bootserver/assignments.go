package bootserver

import (
	"net/url"
	"slices"
	"strings"

	"writ"
	"writ/efi/progress"
)

// MaxAssignments is the maximum number of machines with settings of their own.
const MaxAssignments = MaxMachines

// serialWord prefixes the serial number in the name of a machine.
const serialWord = "serial="

// ownWords prefixes settings whose values must differ between machines.
var ownWords = []string{"writ.name=", "writ.address="}

// Assignments holds the settings of single machines, in addition to the common settings. The text form has one line per
// machine: its name, followed by words of a kernel command line. Text after # is a comment.
type Assignments struct {
	order []string          // machine names
	words map[string]string // by machine name, separated by spaces
}

// ParseAssignments parses the text form. check rejects invalid words. Errors contain the line number.
func ParseAssignments(text string, check func(words []string) error) (*Assignments, error) {
	a := &Assignments{words: map[string]string{}}
	owner := map[string]string{} // by words of ownWords
	n := 0
	for line := range strings.Lines(text) {
		n++
		machine, words, err := parseAssignment(line)
		if err == nil && len(words) > 0 {
			err = check(words)
		}
		if err != nil {
			e := writ.AsError(err)
			return nil, writ.Errorf(writ.CodeUsage, "line %d: %s", n, e.Message).WithHint("%s", e.Hint)
		}
		if machine == "" {
			continue
		}
		if _, twice := a.words[machine]; twice {
			return nil, writ.Errorf(writ.CodeUsage, "line %d: %s already has a line", n, machine).
				WithHint("a machine has one line with all its settings")
		}
		for _, word := range words {
			if !slices.ContainsFunc(ownWords, func(prefix string) bool { return strings.HasPrefix(word, prefix) }) {
				continue
			}
			if other := owner[word]; other != "" {
				return nil, writ.Errorf(writ.CodeUsage, "line %d: %s already has %s", n, other, word).
					WithHint("names and addresses must be unique")
			}
			owner[word] = machine
		}
		a.order, a.words[machine] = append(a.order, machine), strings.Join(words, " ")
	}
	if len(a.order) > MaxAssignments {
		return nil, writ.Errorf(writ.CodeUsage, "%d machines have settings, and the limit is %d", len(a.order),
			MaxAssignments)
	}
	return a, nil
}

// parseAssignment parses a line. machine is "" for an empty line.
func parseAssignment(line string) (machine string, words []string, err error) {
	line, _, _ = strings.Cut(line, "#")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return "", nil, nil
	}
	if machine, err = AssignedTo(fields[0]); err != nil {
		return "", nil, err
	}
	words = fields[1:]
	if len(words) == 0 {
		return "", nil, writ.Errorf(writ.CodeUsage, "%s has no settings", machine).
			WithHint("append them, for example writ.name=n1 writ.address=10.77.0.4/24")
	}
	_, err = Script("", "", words)
	return machine, words, err
}

// AssignedTo normalises the name of a machine. A name is the hardware address of the network card, or "serial=" and the
// percent-encoded serial number.
func AssignedTo(machine string) (string, error) {
	if mac := progress.MAC(machine); mac != "" {
		return mac, nil
	}
	if text, ok := strings.CutPrefix(machine, serialWord); ok {
		serial, err := url.PathUnescape(text)
		if serial = identityOf(serial); err == nil && serial != "" {
			return serialWord + url.PathEscape(serial), nil
		}
	}
	return "", writ.Errorf(writ.CodeUsage, "%q does not name a machine", machine).
		WithHint("use the address of its network card, such as 52:54:00:77:00:50, or serial=SN-0001, where %%20 is a space")
}

// of returns the settings of a machine, "" if it has no assignment. The hardware address takes precedence over the
// serial number.
func (a *Assignments) of(mac, serial string) string {
	if a == nil {
		return ""
	}
	if words, ok := a.words[mac]; ok || serial == "" {
		return words
	}
	return a.words[serialWord+url.PathEscape(serial)]
}

// Assign replaces the settings of a machine in a text of assignments. Without words, it removes the machine. Other
// lines stay unchanged.
func Assign(text, machine string, words []string) string {
	var b strings.Builder
	line := strings.Join(append([]string{machine}, words...), " ") + "\n"
	for old := range strings.Lines(text) {
		if of, _, _ := parseAssignment(old); of != machine {
			b.WriteString(strings.TrimSuffix(old, "\n") + "\n")
		} else if len(words) > 0 {
			b.WriteString(line)
			words = nil
		}
	}
	if len(words) > 0 {
		b.WriteString(line)
	}
	return b.String()
}

// States of an assignment.
const (
	AssignmentWaits   = "waits"   // changed; effective from the next start
	AssignmentGiven   = "given"   // sent in the script; not yet confirmed by a report
	AssignmentUsed    = "used"    // the machine reported that it started with the settings of its script
	AssignmentIgnored = "ignored" // the machine reported that it started with other settings
)

// assignmentState compares the assigned settings with the settings in the machine's script and in its reports. It
// returns "" if the machine has no settings of its own.
func (m *Machine) assignmentState(assigned string) string {
	switch {
	case assigned == "" && m.Given == "":
		return ""
	case assigned != m.Given:
		return AssignmentWaits
	case m.reported == "":
		return AssignmentGiven
	case m.reported == m.expected:
		return AssignmentUsed
	default:
		return AssignmentIgnored
	}
}

// withUnseen adds rows for machines with settings that have sent no request yet.
func (a *Assignments) withUnseen(rows []Row, age int64) []Row {
	if a == nil {
		return rows
	}
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r.MAC] = true
		if r.Serial != "" {
			seen[serialWord+url.PathEscape(r.Serial)] = true
		}
	}
	for _, machine := range a.order {
		if !seen[machine] {
			rows = append(rows, Row{
				Machine: Machine{MAC: machine}, AgeSeconds: age, SilentSeconds: age, Assigned: a.words[machine],
				Assignment: AssignmentWaits,
				Advice:     "no request since the boot server started: check that it is on, boots from the network, and is named correctly",
			})
		}
	}
	return rows
}
