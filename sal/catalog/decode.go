package catalog

import (
	"fmt"
	"reflect"
	"strings"

	"writ"
)

// Decode checks the arguments of a job, fills in defaults, and returns a pointer to the operation's argument struct. A
// handle is a writ.Ref or its map of kind, name and uid; a handle given by name becomes a writ.Ref without UID. The
// error is ARGUMENTS_INVALID and names every problem. Only the names of secrets are known: see DecodeWith.
func (o *Operation) Decode(args map[string]any) (any, error) { return o.DecodeWith(args, nil) }

// DecodeWith is Decode with the values of secrets. It checks these values like other texts, and no error contains a
// value.
func (o *Operation) DecodeWith(args map[string]any, secrets map[Secret]string) (any, error) {
	c := checker{isHandle: isRef, known: true, sent: true, secrets: secrets}
	if c.object(o.Args, args, nil); len(c.problems) > 0 {
		texts := make([]string, len(c.problems))
		for i, p := range c.problems {
			texts[i] = p.String()
		}
		return nil, writ.Errorf(writ.CodeArgumentsInvalid, "%s: %s", o.Name(), strings.Join(texts, "; "))
	}
	to := o.newArgs()
	o.Args.decode(reflect.ValueOf(to).Elem(), o.Args.Fill(args), secrets)
	return to, nil
}

// isRef recognises handles in the arguments of a job.
func isRef(v any) (writ.ResourceKind, bool) {
	if _, named := v.(string); named {
		return "", false
	}
	ref, ok := refOf(nil, v)
	return ref.Kind, ok
}

// decode sets the fields of a struct from valid args.
func (s Schema) decode(to reflect.Value, args map[string]any, secrets map[Secret]string) {
	for i := range s {
		if v := args[s[i].Name]; v != nil {
			s[i].decode(to.FieldByIndex(s[i].index), v, secrets)
		}
	}
}

func (f *Field) decode(to reflect.Value, v any, secrets map[Secret]string) {
	if f.Secret {
		to.Set(reflect.ValueOf(textOf(v, secrets)))
		return
	}
	switch f.Type {
	case Handle:
		ref, _ := refOf(f, v)
		to.Set(reflect.ValueOf(ref))
	case List:
		list := v.([]any)
		to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
		for i, e := range list {
			f.Elem.decode(to.Index(i), e, secrets)
		}
	case Map:
		to.Set(reflect.MakeMapWithSize(to.Type(), len(v.(map[string]any))))
		for key, e := range v.(map[string]any) {
			elem := reflect.New(to.Type().Elem()).Elem()
			f.Elem.decode(elem, e, secrets)
			to.SetMapIndex(reflect.ValueOf(key), elem)
		}
	case Object:
		f.Fields.decode(to, v.(map[string]any), secrets)
	case Decimal:
		h, _ := HundredthsOf(v)
		to.SetInt(int64(h))
	default:
		to.Set(reflect.ValueOf(v).Convert(to.Type()))
	}
}

// Values encodes an argument or result struct, or a pointer to one, as a map: the reverse of Decode. It omits zero
// fields unless they are required or have a default. A secret becomes its encoded form. Values panics if v is not a
// struct of the catalogue.
func Values(v any) map[string]any {
	from := reflect.Indirect(reflect.ValueOf(v))
	s, ok := declared().byType[from.Type()]
	if !ok {
		panic(fmt.Sprintf("catalog.Values of a %T", v))
	}
	return s.values(from)
}

func (s Schema) values(from reflect.Value) map[string]any {
	m := make(map[string]any, len(s))
	for i := range s {
		f := &s[i]
		v := from.FieldByIndex(f.index)
		empty := v.IsZero() || (f.Type == List || f.Type == Map) && v.Len() == 0
		if empty && !f.Required && f.Default == nil {
			continue
		}
		m[f.Name] = f.value(v)
	}
	return m
}

func (f *Field) value(v reflect.Value) any {
	if f.Secret {
		return v.Interface().(Text).form()
	}
	switch f.Type {
	case Handle:
		ref := v.Interface().(writ.Ref)
		if f.ByName && ref.UID == "" {
			return ref.Name
		}
		return map[string]any{"kind": string(ref.Kind), "name": ref.Name, "uid": string(ref.UID)}
	case List:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = f.Elem.value(v.Index(i))
		}
		return list
	case Map:
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			m[it.Key().String()] = f.Elem.value(it.Value())
		}
		return m
	case Object:
		return f.Fields.values(v)
	case Int:
		return v.Int()
	case Decimal:
		return decimal(writ.Hundredths(v.Int()))
	case Bool:
		return v.Bool()
	default:
		return v.String()
	}
}
