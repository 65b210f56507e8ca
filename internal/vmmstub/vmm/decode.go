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

// decode reads a JSON object into the struct that into points to, as the real program does and encoding/json does not: keys are compared
// with case, a field that is tagged `need:"yes"` has to be there, one that is neither pointer nor list may not be null, and a string that
// is tagged `oneof` is one of those. Fields that are not there keep what they have, unknown keys are ignored.
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

// fields lets json.Unmarshal decode into a struct that has no method for it.
type fields struct{ into any }

func (f fields) UnmarshalJSON(text []byte) error { return decode(text, f.into) }

// decodeBody reads the body of a request: one value and nothing behind it.
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
