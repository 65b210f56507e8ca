package author

import "testing"

func TestAParameterIsShownAsItIsGiven(t *testing.T) {
	for want, value := range map[string]any{"n1,n2": []any{"n1", "n2"}, "": []any{}, "80": int64(80), "true": true} {
		if got := asGiven(value); got != want {
			t.Errorf("%v is shown as %q", value, got)
		}
	}
}
