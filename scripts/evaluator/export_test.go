package evaluator

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync/atomic"
	"time"

	"writ"
)

// Idle returns the idle processes.
func (p *Pool) Idle() []*os.Process {
	a := p.admission()
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*os.Process
	for _, c := range a.idle {
		all = append(all, c.cmd.Process)
	}
	return all
}

// IdleSlow returns the number of idle processes that run slow passes only.
func (p *Pool) IdleSlow() (n int) {
	a := p.admission()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.idle {
		if c.slow {
			n++
		}
	}
	return n
}

// RecordSlow records that passes of a program take long.
func (p *Pool) RecordSlow(program writ.Digest) {
	p.admission().record(func(c *costs) { c.record(program, 2*roundTime, 0) })
}

// ForgetCosts forgets all costs.
func (p *Pool) ForgetCosts() { p.admission().record(func(c *costs) { *c = costs{} }) }

// Misremember makes the pool's records of its idle children wrong.
func (p *Pool) Misremember() {
	a := p.admission()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.idle {
		for _, k := range c.journals.list {
			k.version += 1_000_000
		}
	}
}

// CountEntries returns a function that counts the entries of journals that the only child has received from now on.
func (p *Pool) CountEntries() (count func() int64) {
	a := p.admission()
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.idle[0]
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	to := c.in
	_ = to.SetWriteDeadline(time.Time{}) // the deadline of the last request
	c.in = w
	var entries atomic.Int64
	go func() { // ends when the pool closes
		defer to.Close()
		defer r.Close()
		for {
			var requests []request
			if readFrame(r, &requests) != nil {
				return
			}
			for i := range requests {
				entries.Add(int64(len(requests[i].Journal.Entries)))
			}
			frame, err := appendFrame(requests)
			if err == nil {
				_, err = to.Write(frame)
			}
			if err != nil {
				return
			}
		}
	}()
	return entries.Load
}

// CPUOf returns the CPU time of a process.
var CPUOf = cpuOf

// Confine is the first step of a child.
var Confine = confine

// ServeMoodily runs a child that reads orders in requests before it answers them.
func ServeMoodily() int {
	if err := serve(moody{os.Stdin}, os.Stdout, Layers{{Name: "air", Detail: "thin"}, {Name: "wall", Missing: "nobody built it"}}, func() time.Duration { return 0 }); err != nil {
		return 1
	}
	return 0
}

type moody struct{ in io.Reader }

func (m moody) Read(b []byte) (int, error) {
	n, err := m.in.Read(b)
	switch {
	case bytes.Contains(b[:n], []byte("please die")):
		os.Stderr.WriteString("fatal error: runtime: out of memory\n")
		os.Exit(2)
	case bytes.Contains(b[:n], []byte("please spin")):
		go m.outlive()
		//nolint:staticcheck // a child that spins is what the test is about
		for {
		}
	case bytes.Contains(b[:n], []byte("please hang")):
		m.outlive()
	}
	return n, err
}

// outlive ends the child when its parent is gone. The parent may be killed during a request, and the kernel does not
// limit this child.
func (m moody) outlive() {
	_, _ = io.Copy(io.Discard, m.in)
	os.Exit(3)
}

// SetPatience sets the maximum time for an answer of a child.
func (p *Pool) SetPatience(d time.Duration) { p.patience = d }

// Hold occupies all children, and returns a function that releases them.
func (p *Pool) Hold() (release func()) {
	a := p.admission()
	places := make([]*slot, a.slots.most)
	for i := range places {
		places[i], _ = a.enter(context.Background(), "", nil)
	}
	return func() {
		for _, place := range places {
			a.leave(place)
		}
	}
}

// Waiting returns the length of the admission queue.
func (p *Pool) Waiting() int {
	a := p.admission()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.line.Len()
}

// Busy returns the number of working children.
func (p *Pool) Busy() int {
	a := p.admission()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.slots.all()
}

// Crowded reports whether work waits for a child, as a working child with quick passes sees it.
func (p *Pool) Crowded() bool { return p.admission().crowdOf(&slot{class: quick})() }
