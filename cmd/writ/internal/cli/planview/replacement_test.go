package planview

import (
	"encoding/json"
	"strings"
	"testing"

	"writ"
	"writ/scripts"
)

func TestPlanShowsReplacementOfContainer(t *testing.T) {
	const gapless, gap = "replaces the container without a gap", "replaces the container: the old one stops"
	published := []any{map[string]any{"port": int64(8080), "to": int64(80)}}
	mount := func(readOnly any) []any {
		return []any{map[string]any{"volume": "data", "path": "/d", "read_only": readOnly}}
	}
	health, unknown := map[string]any{"tcp": int64(80)}, map[string]any{"(known after)": []any{1}}
	files := func(on any) map[string]any {
		return map[string]any{"/etc/a": map[string]any{"text": "x", "on_change": on}}
	}
	for name, tt := range map[string]struct {
		changes string
		from    any
		args    map[string]any
		want    string
	}{
		"ports and health":    {"image", "a", map[string]any{"publish": published, "health": health}, gapless},
		"unknown ports":       {"image", "a", map[string]any{"publish": unknown, "health": health}, gapless},
		"read-only volume":    {"cpus", 1, map[string]any{"publish": published, "health": health, "volumes": mount(true)}, gapless},
		"writable volume":     {"cpus", 1, map[string]any{"publish": published, "health": health, "volumes": mount(false)}, gap},
		"unknown volume":      {"cpus", 1, map[string]any{"publish": published, "health": health, "volumes": unknown}, gap},
		"no health":           {"env", map[string]any{}, map[string]any{"publish": published}, gap},
		"slow check":          {"image", "a", map[string]any{"publish": published, "health": map[string]any{"tcp": int64(80), "start_seconds": int64(901)}}, gap},
		"unknown check":       {"image", "a", map[string]any{"publish": published, "health": unknown}, gap},
		"unknown retries":     {"image", "a", map[string]any{"publish": published, "health": map[string]any{"tcp": int64(80), "retries": unknown}}, gap},
		"devices":             {"image", "a", map[string]any{"publish": published, "health": health, "devices": []any{"kvm"}}, gap},
		"devices before":      {"devices", []string{"kvm"}, map[string]any{"publish": published, "health": health}, gap},
		"no devices":          {"cpus", 1, map[string]any{"publish": published, "health": health, "devices": []any{}}, gapless},
		"no ports":            {"env", map[string]any{}, map[string]any{"publish": []any{}, "health": health}, gap},
		"restart":             {"restart", "never", map[string]any{"publish": published}, ""},
		"only ports":          {"publish", []any{}, map[string]any{"publish": published, "health": health}, ""},
		"file with restart":   {"files", nil, map[string]any{"files": files("restart")}, "may replace the container: the old one stops"},
		"file with signal":    {"files", nil, map[string]any{"files": files("HUP")}, ""},
		"file without effect": {"files", nil, map[string]any{"files": files("none")}, ""},
		"removed files":       {"files", nil, map[string]any{}, "may replace the container"},
	} {
		from, err := json.Marshal(tt.from)
		if err != nil {
			t.Fatal(err)
		}
		call := new(scripts.PlannedCall)
		call.Operation, call.Args = "container.create", tt.args
		preview := &writ.PreviewedCall{Action: writ.ActionUpdate, Fields: []writ.FieldChange{{Field: tt.changes, From: from}}}
		if got := replacement(call, preview); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q", name, got)
		}
		if preview.Action = writ.ActionCreate; replacement(call, preview) != "" {
			t.Errorf("%s: a create has a replacement", name)
		}
	}
	call := new(scripts.PlannedCall)
	call.Operation, call.Args = "container.create", map[string]any{"publish": published, "health": health}
	first := &writ.PreviewedCall{Action: writ.ActionUpdate, Fields: []writ.FieldChange{{Field: "image"}, {Field: "publish", From: json.RawMessage("[]")}}}
	if got := replacement(call, first); !strings.HasPrefix(got, gap) {
		t.Errorf("the first published port: %q", got)
	}
}

// The node requests no URL for content that it has.
func TestPlanShowsUncheckedURL(t *testing.T) {
	call := new(scripts.PlannedCall)
	call.Operation = "image.fetch"
	preview := &writ.PreviewedCall{Action: writ.ActionUpdate, Fields: []writ.FieldChange{{Field: "url"}}}
	if got := updateEffect(call, preview); !strings.Contains(got, "the new url is not checked") {
		t.Errorf("update: %q", got)
	}
	if preview.Action = writ.ActionCreate; updateEffect(call, preview) != "" {
		t.Error("a new image has an effect line")
	}
}
