package evaluator

import (
	"slices"

	"writ"
)

const (
	// keptPrograms limits the compiled programs of a child.
	keptPrograms = 64
	// keptSource limits the bytes of the sources of these programs. A compiled program takes 20 to 40 times the bytes of
	// its source, so all of them take at most 80 MiB.
	keptSource = 2 << 20
)

// recent holds values of the most recently used programs, in order of their use. A child keeps its compiled programs in
// a recent, and the parent applies the same uses to its own copy, so the parent knows which programs the child has.
type recent[T any] struct {
	list []used[T]
	size int // bytes of all sources
}

type used[T any] struct {
	program writ.Digest
	size    int
	value   T
}

// find returns the value of a program, and moves it to the front.
func (r *recent[T]) find(program writ.Digest) (value T, found bool) {
	i := r.index(program)
	if i < 0 {
		return value, false
	}
	one := r.list[i]
	copy(r.list[1:i+1], r.list[:i])
	r.list[0] = one
	return one.value, true
}

// has reports whether r contains a program. The call does not count as a use.
func (r *recent[T]) has(program writ.Digest) bool { return r.index(program) >= 0 }

func (r *recent[T]) index(program writ.Digest) int {
	return slices.IndexFunc(r.list, func(one used[T]) bool { return one.program == program })
}

// add inserts the value of a program of size bytes at the front, and drops values at the end that exceed a limit. The
// new value always stays.
func (r *recent[T]) add(program writ.Digest, size int, value T) {
	r.list = slices.Insert(r.list, 0, used[T]{program, size, value})
	r.size += size
	for last := len(r.list) - 1; last > 0 && (last >= keptPrograms || r.size > keptSource); last-- {
		r.size -= r.list[last].size
		r.list[last] = used[T]{}
		r.list = r.list[:last]
	}
}
