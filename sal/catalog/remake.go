package catalog

import (
	"strings"

	"writ"
)

// Remake says what a Make operation has to do about a resource that exists, made by an operation with some arguments: change the named
// fields, or nothing. It is an error, RESOURCE_CONFLICT or IMMUTABLE_FIELD, if it can do neither.
func (o *Operation) Remake(resource writ.ResourceID, made string, old, new map[string]any) (fields []string, err error) {
	if made != o.Name() {
		return nil, writ.Errorf(writ.CodeResourceConflict, "%s was made by %s and cannot be made by %s", resource, made, o.Name()).
			WithHint("use %s.get(%q) for what is there, or another name", o.Module, resource.Name)
	}
	mutable, immutable := o.Args.Changed(old, new)
	if len(immutable) > 0 {
		return nil, writ.Errorf(writ.CodeImmutableField, "%s exists, and what it has as %s cannot be changed", resource, strings.Join(immutable, " and ")).
			WithHint("delete it first, or use another name")
	}
	return mutable, nil
}
