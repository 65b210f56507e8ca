package api

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Values are values of scripts in JSON. Their numbers are decoded as int64, as everywhere in this system; as the
// float64 of encoding/json they would lose digits.
type Values map[string]any

// UnmarshalJSON decodes a JSON object. A number that is not a 64-bit integer is an error.
func (v *Values) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	for k, e := range m {
		i, err := integers(e)
		if err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		m[k] = i
	}
	*v = m
	return nil
}

// integers replaces the numbers in v by int64.
func integers(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return v.Int64()
	case []any:
		for i, e := range v {
			var err error
			if v[i], err = integers(e); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k, e := range v {
			var err error
			if v[k], err = integers(e); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
