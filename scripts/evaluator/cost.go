package evaluator

import (
	"cmp"
	"time"

	"writ"
	"writ/scripts"
)

const (
	// roundTime limits the expected CPU time of a round, because each pass of a round waits for the passes before it.
	// Work that takes longer is not quick.
	roundTime = 10 * time.Millisecond
	// newTakes is the expected CPU time of the first pass of a small program.
	newTakes = roundTime / 5
	// compileByte is the expected CPU time to compile one byte of source. Ordinary sources take half of it. The
	// measured cost of a program replaces it.
	compileByte = time.Microsecond
	// maxCosts limits the number of programs with stored costs.
	maxCosts = 1 << 10
)

// cost is the CPU time of the work on one program, by kind. Zero means unknown. Compiling is separate from running: a
// program that takes long to compile is quick in each child that has it compiled.
type cost struct {
	run, compile, plan time.Duration
}

// costs holds the last known costs of programs. The zero value is ready to use.
type costs struct {
	known map[writ.Digest]cost
}

// record stores the cost of a pass. After a slow pass, a program stays slow for some quick passes. Otherwise a program
// that is slow from time to time would change its class each time.
func (c *costs) record(program writ.Digest, run, compile time.Duration) {
	k := c.known[program]
	k.run = max(run, k.run/2, 1)
	k.compile = cmp.Or(compile, k.compile)
	c.store(program, k)
}

// recordCompile stores the cost of a compilation.
func (c *costs) recordCompile(program writ.Digest, took time.Duration) {
	k := c.known[program]
	k.compile = took
	c.store(program, k)
}

// recordPlan stores the cost of a plan.
func (c *costs) recordPlan(program writ.Digest, took time.Duration) {
	k := c.known[program]
	k.plan = took
	c.store(program, k)
}

func (c *costs) store(program writ.Digest, k cost) {
	if _, known := c.known[program]; !known && (c.known == nil || len(c.known) >= maxCosts) {
		c.known = make(map[writ.Digest]cost)
	}
	c.known[program] = k
}

// slow reports whether passes of a program take long once it is compiled.
func (c *costs) slow(program writ.Digest) bool { return c.known[program].run > roundTime }

// compile returns the expected CPU time to compile a program of size bytes. A child that was taken over may report too
// little, so the result depends on the size, too.
func (c *costs) compile(program writ.Digest, size int) time.Duration {
	const least = 8
	expected := time.Duration(size) * compileByte
	return max(cmp.Or(c.known[program].compile, expected), expected/least)
}

// plan returns the expected CPU time of a plan, which compiles the program for itself.
func (c *costs) plan(program writ.Digest, size int) time.Duration {
	return cmp.Or(c.known[program].plan, max(c.compile(program, size), c.known[program].run))
}

// pass returns the expected CPU time of a pass, in a child with or without the compiled program.
func (c *costs) pass(program writ.Digest, size int, compiled bool) time.Duration {
	run := c.known[program].run
	switch {
	case compiled:
		return cmp.Or(run, newTakes)
	case run == 0:
		return max(newTakes, c.compile(program, size))
	default:
		return run + c.compile(program, size)
	}
}

// sizeOf returns the bytes of all sources of a bundle.
func sizeOf(b *scripts.Bundle) int {
	size := len(b.Main.Text)
	for i := range b.Modules {
		size += len(b.Modules[i].Text)
	}
	return size
}
