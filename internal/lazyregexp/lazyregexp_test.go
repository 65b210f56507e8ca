package lazyregexp_test

import (
	"os"
	"sync"
	"testing"

	"writ/internal/lazyregexp"
)

func TestGoroutinesShareAnExpression(t *testing.T) {
	r := lazyregexp.New(`^[a-z]+$`)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if !r.MatchString("name") || r.MatchString("Name") {
				t.Error("the expression matches other texts than those of lower-case letters")
			}
		})
	}
	all.Wait()
}

// panics reports whether f panics.
func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestInvalidExpressionFailsInTests(t *testing.T) {
	if !panics(func() { lazyregexp.New(`(`) }) {
		t.Error("New accepts an invalid expression in a test")
	}
}

func TestExpressionIsCompiledAtItsFirstUse(t *testing.T) {
	name := os.Args[0]
	t.Cleanup(func() { os.Args[0] = name })
	os.Args[0] = "writ"
	r := lazyregexp.New(`(`)
	if !panics(func() { r.MatchString("") }) {
		t.Error("an invalid expression matches")
	}
}
