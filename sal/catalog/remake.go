package catalog

import (
	"strings"

	"writ"
)

// Remake returns the fields that a Make operation must change on an existing resource, which the operation made created
// with the arguments old. It returns RESOURCE_CONFLICT or IMMUTABLE_FIELD if it cannot.
func (o *Operation) Remake(
	resource writ.ResourceID, made string, old, new map[string]any,
) (fields []string, err error) {
	if made != o.Name() {
		return nil, writ.Errorf(writ.CodeResourceConflict, "%s was created by %s and cannot be created by %s", resource,
			made, o.Name()).
			WithHint("use %s.get(%q) for the existing resource, or another name", o.Module, resource.Name)
	}
	mutable, immutable := o.Args.Changed(old, new)
	if len(immutable) > 0 {
		return nil, writ.Errorf(writ.CodeImmutableField, "%s exists, and its %s cannot be changed", resource,
			strings.Join(immutable, " and ")).
			WithHint("delete it first, or use another name")
	}
	return mutable, nil
}
