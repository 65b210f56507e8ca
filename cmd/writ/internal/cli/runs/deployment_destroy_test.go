package runs

import (
	"testing"

	"writ"
)

// A hostile coordinator could list another resource after the user has agreed.
func TestEachResourceNeedsAgreement(t *testing.T) {
	t.Parallel()
	agreed := make(map[string]bool)
	kept := func(names ...string) (all []writ.KeptResource) {
		for _, name := range names {
			all = append(all, writ.KeptResource{Kind: writ.KindVolume, Name: name})
		}
		return all
	}
	for i, tt := range []struct {
		kept []writ.KeptResource
		want bool
	}{
		{kept("a", "b"), true}, {kept("b"), false}, {kept("b", "c"), true}, {kept("a", "c"), false},
		{[]writ.KeptResource{{Kind: writ.KindImage, Name: "a"}}, true}, {nil, false},
	} {
		if got := isNew(tt.kept, agreed); got != tt.want {
			t.Errorf("round %d needs agreement: %v", i, got)
		}
	}
}
