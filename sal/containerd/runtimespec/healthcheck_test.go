package runtimespec

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"writ"
)

func TestHealthCommandOfImage(t *testing.T) {
	long := strings.Repeat("x", MaxWord+1)
	for name, tt := range map[string]struct {
		config map[string]any
		want   []string // nil if it is refused
	}{
		"a program":        {map[string]any{"Test": []string{"CMD", "curl", "-f", "http://localhost/"}}, []string{"curl", "-f", "http://localhost/"}},
		"a shell line":     {map[string]any{"Test": []string{"CMD-SHELL", "a || b"}}, []string{"/bin/sh", "-c", "a || b"}},
		"nothing":          {nil, nil},
		"an empty one":     {map[string]any{"Test": []string{}}, nil},
		"disabled":         {map[string]any{"Test": []string{"NONE"}}, nil},
		"no program":       {map[string]any{"Test": []string{"CMD"}}, nil},
		"an empty program": {map[string]any{"Test": []string{"CMD", ""}}, nil},
		"two shell lines":  {map[string]any{"Test": []string{"CMD-SHELL", "a", "b"}}, nil},
		"an unknown form":  {map[string]any{"Test": []string{"HTTP", "/"}}, nil},
		"a text":           {map[string]any{"Test": "CMD curl"}, nil},
		"a long word":      {map[string]any{"Test": []string{"CMD", long}}, nil},
		"NUL":              {map[string]any{"Test": []string{"CMD", "a\x00b"}}, nil},
	} {
		text, err := json.Marshal(map[string]any{"config": map[string]any{"Healthcheck": tt.config}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := healthCommand(text)
		if tt.want == nil && writ.CodeOf(err) != writ.CodeArgumentsInvalid || tt.want != nil && (err != nil || !slices.Equal(got, tt.want)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
	got, err := healthCommand([]byte(`{"config": {"Shell": ["bash", "-ec"], "Healthcheck": {"Test": ["CMD-SHELL", "x"], "Interval": 30000000000}}}`))
	if want := []string{"bash", "-ec", "x"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("with a shell of its own: %q, %v", got, err)
	}
	if _, err := healthCommand([]byte("[]")); writ.CodeOf(err) != writ.CodeArgumentsInvalid {
		t.Error(err)
	}
}
