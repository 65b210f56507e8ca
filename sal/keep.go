package sal

import (
	"context"
	"strings"

	"writ"
)

// Keeper is a driver that detects and repairs drift, for example after a process exited, the host rebooted, or an
// operator removed a link. The runner calls it at startup and every half minute, for one resource at a time and never
// during an operation on that resource.
type Keeper interface {
	Driver
	// Keep compares a resource with its record, repairs what it can and returns the drift that it found. It returns no
	// drift for a healthy resource, and neither drift nor error for a missing one. Keep finishes operations that a
	// crash interrupted.
	Keep(ctx context.Context, resource writ.ResourceID) ([]Drift, error)
	// Orphans returns objects on this host, such as links, processes and directories. Their names have the form that the
	// driver uses, but they belong to no resource. It is read-only.
	Orphans(ctx context.Context) ([]Orphan, error)
}

// Drift is one difference between a resource and its specification.
type Drift struct {
	What   string // a sentence: "the process of the machine had ended"
	Mended bool   // whether Keep repaired it; if not, Keep reports it until an operator acts
}

// Orphan is an object on the host whose name has the form that a driver uses, but that belongs to no resource; see
// writ.Orphan.
type Orphan struct {
	Kind string // "tap", "process", "subvolume"
	Name string // in the form that the host's tools accept
	Of   string // host name of the resource that it was made for, "" if unknown
	// Remedy is a shell command that removes the orphan, made with Command. It is empty if a person must decide first.
	Remedy string
}

// Command returns a shell command line that runs a program with exactly these words, quoted where necessary.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" || strings.ContainsFunc(w, isSpecial) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// isSpecial reports whether a shell may interpret a character.
func isSpecial(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
		strings.ContainsRune("/._-+,:@%=", r))
}
