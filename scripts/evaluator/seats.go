package evaluator

import (
	"time"

	"writ/internal/fair"
)

// class is a kind of work for a child. Each class has its own limit, so that quick work does not wait for slow work.
type class int

const (
	quick     class = iota // passes, of programs that compile and run quickly
	compiling              // a compilation that takes long; passes of the program are quick after it
	slow                   // passes and plans that take long, in their own children with a low priority
	loading                // the first entries of a long journal are read, without a child
	classes                // number of classes
)

// slots counts the working children by class.
type slots struct {
	most int // maximum number of working children; quick passes get one more if the other classes use all of them
	used [classes]int
}

// free reports whether one more child may work in a class. Slow passes get at most half of the children, and
// compilations a quarter, but each at least one. Neither takes the last child from quick passes. Slow passes do not
// count against compilations, because a slow pass may take a minute. One journal is read at a time.
func (s *slots) free(c class) bool {
	switch c {
	case compiling:
		return s.used[compiling] < max(s.most/4, 1) && s.used[quick]+s.used[compiling] < s.most
	case slow:
		return s.used[slow] < max(s.most/2, 1) && s.all() < s.most
	case loading:
		return s.used[loading] == 0
	default:
		return s.used[quick] < max(s.most-s.used[compiling]-s.used[slow], 1)
	}
}

// full reports whether no class has a free child. It ignores class loading.
func (s *slots) full() bool { return !s.free(quick) && !s.free(compiling) && s.all() >= s.most }

// all returns the number of working children.
func (s *slots) all() int { return s.used[quick] + s.used[compiling] + s.used[slow] }

// slot permits one child to work, or one journal to be read. Only its holder uses the child.
type slot struct {
	grant fair.Grant
	class class
	child *child        // the working child, or the reserved idle child; nil if a new child must be started, or none is needed
	cost  time.Duration // CPU time to charge to the project
}

// drop ends the child and returns the last text on its standard error.
func (s *slot) drop() string {
	words := s.child.end()
	s.child = nil
	return words
}
