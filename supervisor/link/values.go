package link

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"

	"writ"
)

// Decode decodes the parameters of a request into v, a pointer. It rejects unknown fields, so that no option is ignored
// silently. The error is BAD_REQUEST.
func Decode(params json.RawMessage, v any) error {
	if len(params) == 0 {
		return writ.Errorf(writ.CodeBadRequest, "the request has no parameters")
	}
	if params[0] == bytesMark {
		text, ok := v.(fromBytes)
		if !ok {
			return writ.Errorf(writ.CodeBadRequest, "the parameters of this request must be JSON")
		}
		text.setBytes(params[1:])
		return nil
	}
	if err := decode(params, v, true); err != nil {
		return writ.Errorf(writ.CodeBadRequest, "the parameters cannot be decoded: %v", err)
	}
	return nil
}

// decode decodes one JSON text into v. Numbers in interfaces become int64, the number type of writ's values: the
// float64 of encoding/json would lose digits.
func decode(data []byte, v any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the value")
	}
	return exact(reflect.ValueOf(v))
}

// decodeEvents reads at most limit events of a frame. It decodes no event beyond the limit: small events take much more
// memory than their text.
func decodeEvents(data []byte, limit int) ([]writ.Event, error) {
	events, err := decodeList[writ.Event](data, limit)
	if errors.Is(err, errTooMany) {
		return nil, protocolError{fmt.Sprintf("more than %d events are unacknowledged", Window)}
	}
	if err != nil {
		return nil, protocolError{fmt.Sprintf("an event frame cannot be decoded: %v", err)}
	}
	return events, nil
}

var errTooMany = errors.New("the list is too long")

// decodeList decodes a list. It returns errTooMany if the list exceeds limit.
func decodeList[T any](data []byte, limit int) ([]T, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return nil, errors.Join(errors.New("a list is expected"), err)
	}
	var all []T
	for d.More() {
		if len(all) == limit {
			return nil, errTooMany
		}
		var item T
		if err := d.Decode(&item); err != nil {
			return nil, err
		}
		if err := exact(reflect.ValueOf(&item)); err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// exact replaces every json.Number in an interface below v with its int64.
func exact(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return exact(v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if n, ok := reflect.TypeAssert[json.Number](v); ok {
			i, err := n.Int64()
			if err != nil {
				return fmt.Errorf("%s is not a 64-bit integer", n)
			}
			v.Set(reflect.ValueOf(i))
			return nil
		}
		return exact(v.Elem())
	case reflect.Struct:
		for _, i := range valueFields(v.Type()) {
			if err := exact(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if !mayHoldValues(v.Type().Elem()) {
			return nil
		}
		for i := range v.Len() {
			if err := exact(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		if !mayHoldValues(v.Type().Elem()) {
			return nil
		}
		return exactMap(v)
	}
	return nil
}

// exactMap applies exact to the elements of a map, which cannot be changed in place.
func exactMap(v reflect.Value) error {
	for it := v.MapRange(); it.Next(); {
		e := reflect.New(v.Type().Elem()).Elem()
		e.Set(it.Value())
		if err := exact(e); err != nil {
			return err
		}
		v.SetMapIndex(it.Key(), e)
	}
	return nil
}

// withValues caches the results of valueFields and mayHoldValues by type: nearly all fields hold no value, and an event
// has some hundred fields.
var withValues struct{ fields, types sync.Map }

// valueFields returns the indexes of the exported fields of a struct type that may contain an interface.
func valueFields(t reflect.Type) (fields []int) {
	if known, ok := withValues.fields.Load(t); ok {
		return known.([]int)
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && mayHoldValues(f.Type) {
			fields = append(fields, i)
		}
	}
	withValues.fields.Store(t, fields)
	return fields
}

// mayHoldValues reports whether a type may contain an interface. exact skips all other types.
func mayHoldValues(t reflect.Type) bool {
	known, ok := withValues.types.Load(t)
	if !ok {
		known = reachesInterface(t, nil)
		withValues.types.Store(t, known)
	}
	return known.(bool)
}

// reachesInterface is mayHoldValues without its cache. The types in within contain t.
func reachesInterface(t reflect.Type, within []reflect.Type) bool {
	if slices.Contains(within, t) {
		return false
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return reachesInterface(t.Elem(), within)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() && reachesInterface(f.Type, within) {
				return true
			}
		}
	}
	return false
}

// countValues estimates the number of JSON values in a text: its commas and opening brackets outside of strings. A
// decoded value can take a hundred times the memory of its text.
func countValues(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}
