package planview

import (
	"encoding/json"
	"slices"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/sal/catalog"
	"writ/scripts"
)

// updateEffect describes the effect of an update beyond its changed fields, or returns "".
func updateEffect(c *scripts.PlannedCall, p *writ.PreviewedCall) string {
	if c.Operation == "image.fetch" && p.Action == writ.ActionUpdate {
		return cli.OnlyURL
	}
	return replacement(c, p)
}

// replacement describes how an update replaces a running container, "" if the container keeps running.
func replacement(c *scripts.PlannedCall, p *writ.PreviewedCall) string {
	if c.Operation != "container.create" || p.Action != writ.ActionUpdate {
		return ""
	}
	verb := "may replace" // depends on texts of files, which are not in a preview
	published, exclusive := c.Args["publish"], isGiven(c.Args["devices"])
	for _, f := range p.Fields {
		if f.Field == "devices" && !isEmpty(f.From) {
			exclusive = true
		}
		switch {
		case f.Field == "publish":
			if isEmpty(f.From) {
				published = nil
			}
		case catalog.ReplacesContainer(f.Field):
			verb = "replaces"
		}
	}
	if verb != "replaces" && !restartsForFile(c, p) {
		return ""
	}
	if isGiven(published) && isGiven(c.Args["publish"]) && isQuickCheck(c.Args["health"]) && !exclusive &&
		!writesToVolume(c.Args["volumes"]) {
		return verb + " the container without a gap: the old one serves until the new one is healthy"
	}
	return verb + " the container: the old one stops before the new one starts"
}

// restartsForFile reports whether the update changes files, and a change of their texts may restart the container.
func restartsForFile(c *scripts.PlannedCall, p *writ.PreviewedCall) bool {
	if !slices.ContainsFunc(p.Fields, func(f writ.FieldChange) bool { return f.Field == "files" }) {
		return false
	}
	files, _ := c.Args["files"].(map[string]any)
	for _, file := range files {
		one, _ := file.(map[string]any)
		if on := one["on_change"]; on != catalog.OnChangeSignal && on != catalog.OnChangeNone {
			return true
		}
	}
	return len(files) == 0 // all are removed, or unknown
}

// isEmpty reports whether the JSON of an argument is missing, null or an empty list.
func isEmpty(text json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "[]"}, string(text))
}

// isGiven reports whether an argument has a value other than an empty list.
func isGiven(v any) bool {
	list, isList := v.([]any)
	return v != nil && (!isList || len(list) > 0)
}

// isQuickCheck reports whether a health check ends soon enough for a replacement without a gap. It is false if that is
// unknown.
func isQuickCheck(v any) bool {
	check, _ := v.(map[string]any)
	isKind := func(name string) bool { return check[name] != nil }
	if !slices.ContainsFunc([]string{"http", "tcp", "command", "image"}, isKind) {
		return false
	}
	var h catalog.Health
	for name, seconds := range map[string]*int64{
		"interval_seconds": &h.IntervalSeconds, "timeout_seconds": &h.TimeoutSeconds, "retries": &h.Retries,
		"start_seconds": &h.StartSeconds, "healthy_seconds": &h.HealthySeconds,
	} {
		if n := check[name]; n != nil {
			known := false
			if *seconds, known = n.(int64); !known {
				return false
			}
		}
	}
	return h.AllowsHandover()
}

// writesToVolume reports whether a container may write to one of its volumes. It is true if that is unknown.
func writesToVolume(v any) bool {
	mounts, isList := v.([]any)
	return isGiven(v) && (!isList || slices.ContainsFunc(mounts, func(m any) bool {
		mount, _ := m.(map[string]any)
		return mount["read_only"] != true
	}))
}
