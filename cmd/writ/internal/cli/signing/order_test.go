package signing

import (
	"testing"
	"time"

	"writ"
)

func TestDeadlineHasWholeSeconds(t *testing.T) {
	o := OrderFlags{Deadline: 1500 * time.Millisecond}
	if err := o.Check(); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("%v", err)
	}
}
