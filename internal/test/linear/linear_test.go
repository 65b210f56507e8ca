package linear_test

import (
	"errors"
	"testing"

	"writ/internal/test/linear"
)

// once models a resource that belongs to its first caller. The response is the owner.
var once = linear.Model[int, int, int]{
	Step: func(owner, who, answer int) (int, bool) {
		if owner == 0 {
			owner = who
		}
		return owner, answer == owner
	},
	Maybe: func(owner, who int) int {
		if owner == 0 {
			owner = who
		}
		return owner
	},
}

func TestHistoryIsLegalIfSomeOrderExplainsIt(t *testing.T) {
	gone := errors.New("gone")
	type step struct {
		who, answer int
		err         error
	}
	for _, tt := range []struct {
		name  string
		steps []step
		want  bool
	}{
		{"one after the other", []step{{1, 1, nil}, {2, 1, nil}}, true},
		{"two owners", []step{{1, 1, nil}, {2, 2, nil}}, false},
		{"the client without an answer has it", []step{{1, 0, gone}, {2, 1, nil}, {3, 1, nil}}, true},
		{"the client without an answer does not have it", []step{{1, 0, gone}, {2, 2, nil}, {3, 2, nil}}, true},
		{"both", []step{{1, 0, gone}, {2, 1, nil}, {3, 3, nil}}, false},
	} {
		var h linear.History[int, int]
		for _, s := range tt.steps {
			h.Ask(0, s.who, func() (int, error) { return s.answer, s.err })
		}
		if legal, err := linear.Legal(once, &h); legal != tt.want || err != nil {
			t.Errorf("%s: legal = %v, %v", tt.name, legal, err)
		}
	}
	var h linear.History[int, int] // the second request starts and ends while the first one waits
	h.Ask(1, 1, func() (int, error) {
		h.Ask(2, 2, func() (int, error) { return 2, nil })
		return 2, nil
	})
	if legal, err := linear.Legal(once, &h); !legal || err != nil {
		t.Errorf("at the same time: legal = %v, %v", legal, err)
	}
}
