package why

import "sync"

// WaitNotes prints the reasons why a run and its calls wait. The events of the run and the lookout, which requests the
// state of the run, give the same reasons, so a reason is not printed twice in a row. It may be used by several
// goroutines.
type WaitNotes struct {
	Show func(format string, args ...any) // prints a line

	mu   sync.Mutex
	told map[string]toldReason // the last reason, by call; "" is the run
	last string                // the last line on the screen, "" if it is not a reason
}

// toldReason is a printed reason, and the printed lines about its next command, if any.
type toldReason struct{ why, next string }

// Note prints a reason, unless it equals the last reason of its call.
func (w *WaitNotes) Note(r WaitReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told[r.Call].why != r.Why {
		w.print(r, "")
	}
}

// NoteAll prints reasons with their next commands. If a reason is on the screen without its command, NoteAll prints the
// command. It repeats the reason first, unless that is the last line.
func (w *WaitNotes) NoteAll(all []WaitReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range all {
		if next := r.nextLines(); w.told[r.Call] != (toldReason{r.Why, next}) {
			w.print(r, next)
		}
	}
}

// print prints a reason, unless it is the last line, and the lines about its command.
func (w *WaitNotes) print(r WaitReason, next string) {
	if line := r.line(); line != w.last {
		w.Show("%s", line)
		w.last = line
	}
	if next != "" {
		w.Show("%s", next)
		w.last = ""
	}
	if w.told == nil {
		w.told = make(map[string]toldReason)
	}
	w.told[r.Call] = toldReason{r.Why, next}
}

// Forget notes that a call no longer waits: a later reason is printed even if it is the same.
func (w *WaitNotes) Forget(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.told, call)
	w.last = ""
}

// OtherLine records that a line of another kind follows on the screen.
func (w *WaitNotes) OtherLine() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = ""
}
