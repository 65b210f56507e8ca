package admission

import (
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
)

func TestHolderKeepsItsSerialNumber(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	b := &journal.NodeBatch{ID: "b1", Made: made}
	for _, tt := range []struct {
		name      string
		admission writ.Admission
		serial    string
		batch     string
		decided   time.Time
		want      bool
	}{
		{"approved", writ.AdmissionApproved, "s1", "", time.Time{}, true},
		{"pending", writ.AdmissionPending, "s1", "", time.Time{}, true},
		{"removed before the batch", writ.AdmissionRemoved, "s1", "", made.Add(-1), false},
		{"removed after the batch", writ.AdmissionRemoved, "s1", "", made, true},
		{"removed, from this batch", writ.AdmissionRemoved, "s1", "b1", made.Add(-1), true},
		{"another number", writ.AdmissionApproved, "s2", "b1", made, false},
	} {
		n := &journal.Node{Node: writ.Node{Admission: tt.admission}, Serial: tt.serial}
		n.Batch = tt.batch
		if !tt.decided.IsZero() {
			n.Decided = []writ.Decision{{Time: tt.decided}}
		}
		if got := holds(n, "s1", b); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestRefusedTokenNamesItsReason(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tt := range []struct {
		token journal.Token
		want  writ.Code
	}{
		{journal.Token{Expires: now, Uses: 1}, writ.CodeTokenInvalid},
		{journal.Token{Expires: now.Add(1), Uses: 2}, writ.CodeTokenSpent},
	} {
		if got := writ.CodeOf(refuseToken(&tt.token, now)); got != tt.want {
			t.Errorf("token %+v: %s, want %s", tt.token, got, tt.want)
		}
	}
}
