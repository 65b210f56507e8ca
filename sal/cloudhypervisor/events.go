package cloudhypervisor

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// maxEvents is how much a process may have said that nobody needs any more before the disk gets it back, in bytes: a guest that starts itself
// anew again and again makes it say some hundred each time.
const maxEvents = 1 << 20

// event is something that a process says of itself.
type event struct {
	Source string `json:"source"`
	Event  string `json:"event"`
}

// told is an event and when it was, since the start of the process.
type told struct {
	event

	Timestamp struct {
		Secs  int64 `json:"secs"`
		Nanos int64 `json:"nanos"`
	} `json:"timestamp"`
}

// takenDown is how much later than it is off a machine may be deleted by a process that takes it down to end: it does one right after the other.
// A machine that was off for longer had turned itself off before.
const takenDown = time.Second

// heard is what a process has said, up to a place in its file.
type heard struct {
	Until   int64 `json:"until,omitempty"` // bytes of the file
	Reboots int   `json:"reboots,omitempty"`
	Ended   bool  `json:"off,omitempty"`    // it took its machine down and was about to end
	Down    bool  `json:"down,omitempty"`   // its machine is off, and it goes on
	DownAt  int64 `json:"downAt,omitempty"` // in nanoseconds since its start
	Alive   bool  `json:"alive,omitempty"`  // its guest uses a device
}

// guestIsOff reports whether the guest turned itself off. One that was left by its process, on a signal or because its processor could not go
// on, did not: its process deletes the machine right after it was off, and ends. Of processes of earlier versions, which end in both cases, nobody can tell.
func (p *process) guestIsOff(h heard) bool {
	switch {
	case p == nil:
		return false
	case p.Stays:
		return h.Down
	default:
		return h.Ended
	}
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
	for {
		next, err := h.hearSome(f)
		if err != nil || next.Until == h.Until {
			return next, err
		}
		h = next
	}
}

// hearSome reads on for maxEvents bytes at the most. Where so many hold no event, the process does not keep to the form, and they are passed
// over: it could have us keep as much in memory as it likes.
func (h heard) hearSome(f *os.File) (heard, error) {
	from := h.Until
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return h, err
	}
	for d := json.NewDecoder(io.LimitReader(f, maxEvents)); ; {
		var e told
		if d.Decode(&e) != nil {
			break // the end, or what is not written yet
		}
		h.Until = from + d.InputOffset()
		at := e.Timestamp.Secs*int64(time.Second) + e.Timestamp.Nanos
		switch e.event {
		case event{"vm", "rebooted"}:
			h.Reboots++
			h.Down = false
		case event{"vm", "booted"}:
			h.Down = false
		case event{"vm", "deleted"}:
			h.Down = h.Down && at-h.DownAt > int64(takenDown)
		case event{"vm", "shutdown"}:
			h.Down, h.DownAt = true, at
		case event{"vm", "restored"}: // it goes on where it was, and says nothing of devices
			h.Down, h.Alive = false, true
		case event{"virtio-device", "activated"}:
			h.Alive = true
		case event{"vmm", "shutdown"}:
			h.Ended = true
		}
	}
	info, err := f.Stat()
	if err == nil && h.Until == from && info.Size() >= from+maxEvents {
		h.Until += maxEvents
	}
	return h, err
}

// same reports whether nothing that matters was said between the two.
func (h heard) same(as heard) bool {
	h.Until = as.Until
	return h == as
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
	if now.same(before) && now.Until-before.Until < maxEvents/8 {
		return k.trimTo(path, before.Until, maxEvents) // what was read since is read again
	}
	if err := k.records().Put(k.r); err != nil { // first: what is given back cannot be read any more
		return err
	}
	return k.trimTo(path, now.Until, maxEvents)
}
