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

// maxEvents is the size in bytes of processed events after which their disk space is released. A guest that keeps
// rebooting makes the process write some hundred bytes each time.
const maxEvents = 1 << 20

// event is the kind of an event that a process reports.
type event struct {
	Source string `json:"source"`
	Event  string `json:"event"`
}

// timedEvent is an event and its time since the start of the process.
type timedEvent struct {
	event

	Timestamp struct {
		Secs  int64 `json:"secs"`
		Nanos int64 `json:"nanos"`
	} `json:"timestamp"`
}

// shutdownGap is the longest time between the events "shutdown" and "deleted" of a process that ends: it deletes its
// machine right after the shutdown. If the time is longer, the guest had turned itself off before.
const shutdownGap = time.Second

// heard sums up the events of a process up to an offset in its events file.
type heard struct {
	Until   int64 `json:"until,omitempty"` // offset in the file, in bytes
	Reboots int   `json:"reboots,omitempty"`
	Ended   bool  `json:"off,omitempty"`    // the process shut its machine down and was about to end
	Down    bool  `json:"down,omitempty"`   // the machine is off, and the process continues
	DownAt  int64 `json:"downAt,omitempty"` // nanoseconds since the start of the process
	Alive   bool  `json:"alive,omitempty"`  // the guest uses a device
}

// guestIsOff reports whether the guest turned itself off. A process that ends because of a signal or a CPU fault
// deletes the machine right after the shutdown event; such a guest did not turn itself off. A process that an earlier
// driver version started ends in both cases with the same events, so guestIsOff cannot distinguish them.
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

// readEvents reads the new events of a process. A missing file is not an error.
func (h heard) readEvents(path string) (heard, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	defer f.Close()
	for {
		next, err := h.readSome(f)
		if err != nil || next.Until == h.Until {
			return next, err
		}
		h = next
	}
}

// readSome reads at most maxEvents bytes. If these bytes contain no event, the file is malformed, and they are skipped.
// Otherwise the process could make the driver buffer any amount of data.
func (h heard) readSome(f *os.File) (heard, error) {
	from := h.Until
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return h, err
	}
	for d := json.NewDecoder(io.LimitReader(f, maxEvents)); ; {
		var e timedEvent
		if d.Decode(&e) != nil {
			break // the end of the file, or an incomplete event
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
			h.Down = h.Down && at-h.DownAt > int64(shutdownGap)
		case event{"vm", "shutdown"}:
			h.Down, h.DownAt = true, at
		case event{"vm", "restored"}: // the guest continues, and the process reports no devices
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

// same reports whether h and `as` differ only in their offsets.
func (h heard) same(as heard) bool {
	h.Until = as.Until
	return h == as
}

// readEvents reads the new events of the machine's process, and releases the disk space of processed events when there
// are many.
func (k *keeping) readEvents() error {
	own := &k.r.Own
	if own.Process == nil {
		return nil
	}
	path := filepath.Join(k.dir, eventsName(own.Process.Launch))
	before := own.Past.Heard
	now, err := before.readEvents(path)
	if err != nil {
		return err
	}
	own.Past.Heard = now
	if now.same(before) && now.Until-before.Until < maxEvents/8 {
		return trimTo(path, before.Until, maxEvents, k.step) // Keep will read the later events again
	}
	if err := k.records().Put(k.r); err != nil { // first, because released events cannot be read again
		return err
	}
	return trimTo(path, now.Until, maxEvents, k.step)
}
