package catalog

import (
	"maps"
	"reflect"
	"slices"

	"writ"
)

// Fill returns a copy of `args` with defaults for missing fields, also in nested objects. Fields with a nil value are
// removed. Decimal fields get the form that they have in calls.
func (s Schema) Fill(args map[string]any) map[string]any {
	filled := make(map[string]any, len(args))
	for name, v := range args {
		if v == nil {
			continue
		}
		if f, ok := s.Field(name); ok {
			v = f.fill(v)
		}
		filled[name] = v
	}
	for _, f := range s {
		if _, given := filled[f.Name]; !given && f.Default != nil {
			filled[f.Name] = f.Default
		}
	}
	return filled
}

// long returns the long form of v. If f is an object with Short, and v is not an object (but a scalar, a list or an
// encoded Text), the long form is an object with v in the field that Short names. Otherwise, it is v.
func long(f *Field, v any) any {
	if f.Type != Object || f.Short == "" {
		return v
	}
	if m, isMap := v.(map[string]any); isMap && !isTextForm(m) {
		return v
	}
	return map[string]any{f.Short: v}
}

func (f *Field) fill(v any) any {
	v = long(f, v)
	if h, ok := HundredthsOf(v); ok && f.Type == Decimal {
		return decimal(h)
	}
	switch v := v.(type) {
	case []any:
		list := slices.Clone(v)
		if f.Elem != nil {
			for i := range list {
				list[i] = f.Elem.fill(list[i])
			}
		}
		return list
	case map[string]any:
		if f.Type == Object {
			return f.Fields.Fill(v)
		}
		filled := maps.Clone(v)
		for key := range filled {
			if f.Type == Map {
				filled[key] = f.Elem.fill(filled[key])
			}
		}
		return filled
	default:
		return v
	}
}

// ReplaceHandles returns a copy of args and applies replace to every handle. Handles given as names stay unchanged: see
// Named. Every Secret and Composed is replaced by its encoded form. args must fit the schema. ReplaceHandles stops at
// the first error of replace.
func (s Schema) ReplaceHandles(args map[string]any, replace func(handle any) (any, error)) (map[string]any, error) {
	return s.rewrite(args, func(f *Field, v any) (any, error) {
		switch v := v.(type) {
		case Secret:
			return v.form(), nil
		case Composed:
			return v.form(), nil
		}
		if _, named := v.(string); named || f.Type != Handle {
			return v, nil
		}
		return replace(v)
	})
}

// Named returns the resources that args give by name instead of by handle, in the order of the schema and without UIDs.
// They are dependencies, too: only the node that has them can execute the operation, unless the field is Elsewhere.
func (s Schema) Named(args map[string]any) []writ.Ref {
	var refs []writ.Ref
	_, _ = s.rewrite(args, func(f *Field, v any) (any, error) {
		if name, named := v.(string); named && f.Type == Handle && !isReference(f, name) {
			refs = append(refs, writ.Ref{Kind: f.Kinds[0], Name: name})
		}
		return v, nil
	})
	return refs
}

// Holds returns the resources that a resource needs as long as it exists. args are the arguments of this operation,
// which made the resource, and values is its last result. If both have a field, the field of the result counts, because
// only the result contains volumes that were attached later. Holds returns nil for a volume, which has its own copy of
// its image or source.
func (o *Operation) Holds(args, values map[string]any) []writ.Ref {
	if o.Kind == writ.KindVolume {
		return nil
	}
	var refs []writ.Ref
	for _, f := range o.Args {
		if names, measured := values[f.Name].([]any); measured && f.Type == List && f.Elem.Type == Handle {
			for _, name := range names {
				text, _ := name.(string)
				refs = append(refs, writ.Ref{Kind: f.Elem.Kinds[0], Name: text})
			}
			continue
		}
		_, _ = f.rewrite(args[f.Name], func(f *Field, v any) (any, error) {
			if f.Type == Handle {
				ref, _ := refOf(f, v)
				refs = append(refs, ref)
			}
			return v, nil
		})
	}
	return slices.DeleteFunc(refs, func(r writ.Ref) bool { return r.Name == "" })
}

// HeldKinds returns the kinds of the resources that Holds may return, sorted.
func (o *Operation) HeldKinds() []writ.ResourceKind {
	if o.Kind == writ.KindVolume {
		return nil
	}
	kinds := o.Args.handleKinds()
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

func (s Schema) handleKinds() (kinds []writ.ResourceKind) {
	for _, f := range s {
		kinds = append(slices.Concat(kinds, f.Kinds), f.Fields.handleKinds()...)
		if f.Elem != nil {
			kinds = append(kinds, Schema{*f.Elem}.handleKinds()...)
		}
	}
	return kinds
}

// rewrite copies args and applies leaf to the values of handle fields and of fields that may be secrets.
func (s Schema) rewrite(args map[string]any, leaf func(f *Field, v any) (any, error)) (map[string]any, error) {
	out := maps.Clone(args)
	for i := range s {
		v := args[s[i].Name]
		if v == nil {
			continue
		}
		replaced, err := s[i].rewrite(v, leaf)
		if err != nil {
			return nil, err
		}
		out[s[i].Name] = replaced
	}
	return out, nil
}

func (f *Field) rewrite(v any, leaf func(f *Field, v any) (any, error)) (any, error) {
	switch f.Type {
	case Handle:
		return leaf(f, v)
	case String:
		if f.Secret {
			return leaf(f, v)
		}
	case Map:
		if m, ok := v.(map[string]any); ok && f.Elem.takesSecrets() {
			return f.rewriteMap(m, leaf)
		}
	case Object:
		if m, ok := long(f, v).(map[string]any); ok {
			return f.Fields.rewrite(m, leaf)
		}
	case List:
		list, ok := v.([]any)
		if !ok {
			break
		}
		list = slices.Clone(list)
		for i := range list {
			replaced, err := f.Elem.rewrite(list[i], leaf)
			if err != nil {
				return nil, err
			}
			list[i] = replaced
		}
		return list, nil
	}
	return v, nil
}

func (f *Field) rewriteMap(m map[string]any, leaf func(f *Field, v any) (any, error)) (any, error) {
	out := make(map[string]any, len(m))
	for key, e := range m {
		replaced, err := f.Elem.rewrite(e, leaf)
		if err != nil {
			return nil, err
		}
		out[key] = replaced
	}
	return out, nil
}

// Changed returns the fields that differ between two specs of a resource, mutable and immutable ones, each in the order
// of the schema. A missing field equals its default, or the zero value of its type. Two handles are equal if they have
// the same kind, name and UID; an empty UID equals every UID. Two versions of a secret are different.
func (s Schema) Changed(old, new map[string]any) (mutable, immutable []string) {
	for i := range s {
		f := &s[i]
		switch {
		case f.same(old[f.Name], new[f.Name]):
		case f.Mutable:
			mutable = append(mutable, f.Name)
		default:
			immutable = append(immutable, f.Name)
		}
	}
	return mutable, immutable
}

func (f *Field) same(a, b any) bool {
	a, b = f.orZero(a), f.orZero(b)
	switch f.Type {
	case Handle:
		x, okx := refOf(f, a)
		y, oky := refOf(f, b)
		if okx && oky {
			return x.Kind == y.Kind && x.Name == y.Name && (x.UID == y.UID || x.UID == "" || y.UID == "")
		}
	case Decimal:
		x, okx := HundredthsOf(a)
		y, oky := HundredthsOf(b)
		return okx && oky && x == y
	case List:
		x, okx := a.([]any)
		y, oky := b.([]any)
		if okx && oky {
			return slices.EqualFunc(x, y, f.Elem.same)
		}
	case Map:
		x, okx := a.(map[string]any)
		y, oky := b.(map[string]any)
		if okx && oky {
			return maps.EqualFunc(x, y, f.Elem.same)
		}
	case Object:
		x, okx := long(f, a).(map[string]any)
		y, oky := long(f, b).(map[string]any)
		if okx && oky {
			mutable, immutable := f.Fields.Changed(x, y)
			return len(mutable)+len(immutable) == 0
		}
	}
	return reflect.DeepEqual(a, b)
}

// orZero returns v, or the value of a missing field if v is nil.
func (f *Field) orZero(v any) any {
	switch {
	case v != nil:
		return v
	case f.Default != nil:
		return f.Default
	}
	switch f.Type {
	case String:
		return ""
	case Bool:
		return false
	case Int, Decimal:
		return int64(0)
	case List:
		return []any{}
	case Map, Object:
		return map[string]any{}
	default:
		return nil
	}
}

// refOf decodes a handle in the arguments of a job: a writ.Ref, its map, or a name.
func refOf(f *Field, v any) (writ.Ref, bool) {
	switch v := v.(type) {
	case writ.Ref:
		return v, v.Kind != "" && v.UID != "" && writ.ValidName(v.Name)
	case string:
		return writ.Ref{Kind: f.Kinds[0], Name: v}, f.ByName
	case map[string]any:
		kind, _ := v["kind"].(string)
		name, _ := v["name"].(string)
		uid, _ := v["uid"].(string)
		ok := len(v) == 3 && kind != "" && uid != "" && writ.ValidName(name)
		return writ.Ref{Kind: writ.ResourceKind(kind), Name: name, UID: writ.UID(uid)}, ok
	default:
		return writ.Ref{}, false
	}
}
