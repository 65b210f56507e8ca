package cloudhypervisor

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxEvents is how much a process may have said that nobody needs any more before the disk gets it back, in bytes: a guest that starts itself
// anew again and again makes it say some hundred each time.
const maxEvents = 1 << 20

// event is something that a process says of itself.
type event struct {
	Source string `json:"source"`
	Event  string `json:"event"`
}

// heard is what a process has said, up to a place in its file.
type heard struct {
	Until   int64 `json:"until,omitempty"` // bytes of the file
	Reboots int   `json:"reboots,omitempty"`
	Off     bool  `json:"off,omitempty"` // it took its machine down and was about to end
}

// hear reads on what a process has said since. One that never spoke has no file.
func (h heard) hear(path string) (heard, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	defer f.Close()
	if _, err := f.Seek(h.Until, io.SeekStart); err != nil {
		return h, err
	}
	from := h.Until
	for d := json.NewDecoder(f); ; {
		var e event
		if d.Decode(&e) != nil {
			return h, nil // the end, or what is not written yet
		}
		h.Until = from + d.InputOffset()
		switch e {
		case event{"vm", "rebooted"}:
			h.Reboots++
		case event{"vmm", "shutdown"}:
			h.Off = true
		}
	}
}

// hear reads on what the machine's process has said, and gives back to the disk what was read once it is much.
func (k *keeping) hear() error {
	own := &k.r.Own
	if own.Process == nil {
		return nil
	}
	path := filepath.Join(k.dir, eventsName(own.Process.Launch))
	before := own.Past.Heard
	now, err := before.hear(path)
	if err != nil {
		return err
	}
	own.Past.Heard = now
	if now.Reboots == before.Reboots && now.Off == before.Off && now.Until-before.Until < maxEvents/8 {
		return k.trimTo(path, before.Until, maxEvents) // what was read since is read again
	}
	if err := k.records().Put(k.r); err != nil { // first: what is given back cannot be read any more
		return err
	}
	return k.trimTo(path, now.Until, maxEvents)
}
