package evaluator

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"
)

// Idle returns the processes that have nothing to do.
func (p *Pool) Idle() []*os.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*os.Process
	for _, c := range p.idle {
		all = append(all, c.cmd.Process)
	}
	return all
}

// Misremember lets the pool be wrong about what its idle children keep.
func (p *Pool) Misremember() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		for _, k := range c.journals.list {
			k.version += 1_000_000
		}
	}
}

// CPUOf returns the CPU time that a process has used.
var CPUOf = cpuOf

// Confine is what a child does first.
var Confine = confine

// ServeMoodily is a child that looks into requests before it answers them.
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

// outlive ends the child when its parent is gone, which may be killed with it at work: no kernel bounds this one.
func (m moody) outlive() {
	_, _ = io.Copy(io.Discard, m.in)
	os.Exit(3)
}

// SetPatience says how long children may take for an answer.
func (p *Pool) SetPatience(d time.Duration) { p.patience = d }

// Hold keeps all children from passes, and returns what lets go of them.
func (p *Pool) Hold() (release func()) {
	places := make([]*seat, p.children())
	for i := range places {
		places[i], _ = p.enter(context.Background(), "", nil)
	}
	return func() {
		for _, place := range places {
			p.leave(place)
		}
	}
}

// Waiting returns how many wait for a child.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lobby.line.Len()
}

// Busy returns how many children are at work.
func (p *Pool) Busy() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lobby.seats.all()
}
