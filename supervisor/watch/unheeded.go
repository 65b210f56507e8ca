package watch

import (
	"writ"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// An order to stop a job is sent once. If the node does not obey, the order is repeated. The third scan that finds the
// job repeats it first. The following pauses double up to maxPause scans.
const (
	firstRepeat = 3
	maxPause    = 60
)

// unheeded finds the work that nodes should have stopped. The order to stop may have been lost, or could not be sent.
type unheeded struct {
	presence *fleet.Presence
	post     func(run writ.RunID, m mail.Mail)
	postFrom func(node writ.NodeID, run writ.RunID, m mail.Mail) bool
	found    map[subject]repeats
}

// subject is a job that a node works on without a sent call, or all sent calls of a run that is being stopped.
type subject struct {
	run writ.RunID
	job mail.Active // zero for a run
}

// repeats counts the scans that found a subject. The order is repeated when `scans` reaches `next`, and `pause` scans
// later.
type repeats struct{ scans, next, pause int }

// again returns the count after another scan. due reports whether the order is to be repeated now.
func (r repeats) again() (next repeats, due bool) {
	if r.next == 0 {
		r.next, r.pause = firstRepeat, firstRepeat
	}
	r.scans++
	if due = r.scans == r.next; due {
		r.next += r.pause
		r.pause = min(2*r.pause, maxPause)
	}
	return r, due
}

// repeat wakes the runs whose work nodes should have stopped. Their steps decide whether to order the stop again. sent
// lists all sent calls. ending lists the open runs that end soon: runs that are being stopped, and runs near their
// deadline.
func (u *unheeded) repeat(sent []*journal.Call, ending []writ.RunID) {
	next := make(map[subject]repeats)
	find := func(s subject) (due bool) {
		if _, known := next[s]; known {
			return false
		}
		next[s], due = u.found[s].again()
		return due
	}
	ends := make(map[writ.RunID]bool, len(ending))
	for _, id := range ending {
		ends[id] = true
	}
	wanted := make(map[mail.Active]bool, len(sent))
	for _, c := range sent {
		wanted[mail.Active{Key: c.Key(), Node: c.Node}] = true
		_, ready, _ := u.presence.Works(c.Node, c.Key())
		if ready && ends[c.Run] && find(subject{run: c.Run}) {
			u.post(c.Run, mail.Mail{StopAgain: true})
		}
	}
	var unwanted []mail.Active
	u.presence.ForEachActive(func(node writ.NodeID, key writ.JobKey) {
		if job := (mail.Active{Key: key, Node: node}); !wanted[job] && find(subject{key.Run, job}) {
			unwanted = append(unwanted, job)
		}
	})
	for _, job := range unwanted {
		u.postFrom(job.Node, job.Key.Run, mail.Mail{Started: []mail.Active{job}})
	}
	u.found = next
}
