package sal

import (
	"context"
	"strings"

	"writ"
)

// Keeper is a driver whose resources can come to differ from what was asked for: a process died, the host was started anew, somebody
// removed a link by hand. A runner calls it when it starts and every half minute, for one resource at a time and never while an operation
// on it is under way.
type Keeper interface {
	Driver
	// Keep holds a resource against its record, mends what it can and says what it found. A resource that is as it should be has no
	// drift; one that is not there is none of ours and no error. Keep finishes what a crash interrupted.
	Keep(ctx context.Context, resource writ.ResourceID) ([]Drift, error)
	// Orphans describes what is on this host under the driver's names and belongs to no resource: links, processes, directories. It
	// changes nothing.
	Orphans(ctx context.Context) ([]Orphan, error)
}

// Networked is a driver that can say how the networks of its host do.
type Networked interface {
	Driver
	// Network returns what can be learned soon; what cannot is said in the detail of the overlay.
	Network(ctx context.Context) (writ.NodeNetwork, error)
}

// Drift is one thing about a resource that is not as it was asked for.
type Drift struct {
	What   string // a sentence: "the process of the machine had ended"
	Mended bool   // it is now as it should be; else it is reported until somebody acts
}

// Orphan is something on the host that a driver's names lead to and no resource has; see writ.Orphan.
type Orphan struct {
	Kind string // "tap", "process", "subvolume"
	Name string // as the host's own tools take it
	Of   string // the host name of the resource that it was made for, "" where that cannot be told
	// Remedy is what takes it away: a line for a shell of the host, made with Command. "" where there is more to think about.
	Remedy string
}

// Command is a line for a shell that runs a program with these words and no others, whatever is in them.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" || strings.ContainsFunc(w, isSpecial) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// isSpecial reports whether a character may mean something to a shell.
func isSpecial(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-+,:@%=", r))
}

// Metered is a driver that can say what a resource uses.
type Metered interface {
	Driver
	// Usage returns what a resource has and has used; zero if it is not there.
	Usage(ctx context.Context, resource writ.ResourceID) (Usage, error)
}

// Usage is what a resource occupies at this moment, and what it has moved since it was made or its counters began anew.
type Usage struct {
	CPUs      int64 // virtual CPUs while it runs, 0 while it does not
	MemoryMiB int64 // while it runs, 0 while it does not
	DiskGiB   int64 // that are kept for it, whether they are written or not
	Received  int64 // bytes, counted at its network interfaces; a smaller number than before says that counting began anew
	Sent      int64 // bytes, likewise
}
