package vmm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// decode parses a JSON object into the struct that `into` points to. It follows the real program where encoding/json
// differs: keys are case-sensitive, a field with the tag `need:"yes"` is required, only pointers, lists and maps may be
// null, and a string with the tag `oneof` must have one of its values. Missing fields keep their value; unknown keys
// are ignored.
func decode(text []byte, into any) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return err
	}
	if keys == nil {
		return errors.New("invalid type: null, expected a struct")
	}
	return fill(reflect.ValueOf(into).Elem(), keys)
}

func fill(v reflect.Value, keys map[string]json.RawMessage) error {
	for field, value := range v.Fields() {
		if field.Anonymous {
			if err := fill(value, keys); err != nil {
				return err
			}
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		text, there := keys[name]
		switch null := bytes.Equal(text, []byte("null")); {
		case !there && field.Tag.Get("need") != "":
			return fmt.Errorf("missing field `%s`", name)
		case !there || null && optional(value.Kind()):
			continue
		case null:
			return fmt.Errorf("invalid type: null, expected %s for `%s`", value.Kind(), name)
		}
		if err := json.Unmarshal(text, value.Addr().Interface()); err != nil {
			return err
		}
		if words := strings.Fields(field.Tag.Get("oneof")); len(words) > 0 && !slices.Contains(words, value.String()) {
			return fmt.Errorf("unknown variant `%s`, expected one of %s", value, strings.Join(words, ", "))
		}
	}
	return nil
}

func optional(kind reflect.Kind) bool {
	return kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map
}

// fields lets json.Unmarshal decode into a struct without its own method.
type fields struct{ into any }

func (f fields) UnmarshalJSON(text []byte) error { return decode(text, f.into) }

// decodeBody parses the body of a request: exactly one value.
func decodeBody(text []byte, into any) *failure {
	d := json.NewDecoder(bytes.NewReader(text))
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("trailing characters")
		}
	}
	if err != nil {
		return &failure{Status: 400, Chain: []string{"Failed to deserialize JSON", err.Error()}}
	}
	return nil
}
