package writ

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// CheckValue returns an error if v is not a value of scripts, journals, jobs and results. Such a value is a string,
// bool, int64 or nil, or a []any or map[string]any of values. Floats are invalid because their formatting and
// arithmetic differ between machines. Strings must be UTF-8, because the decoders of journals and envelopes reject
// other strings. The error names the first invalid place in key order.
func CheckValue(v any) error { return checkValue(v, "value", 0) }

// MaxValueDepth limits the nesting of lists and maps.
const MaxValueDepth = 32

func checkValue(v any, path string, depth int) error {
	if depth > MaxValueDepth {
		return fmt.Errorf("%s is nested deeper than %d", path, MaxValueDepth)
	}
	switch v := v.(type) {
	case nil, bool, int64:
		return nil
	case string:
		return checkText(v, path)
	case []any:
		for i, e := range v {
			if err := checkValue(e, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := checkText(k, "a key of "+path); err != nil {
				return err
			}
			if err := checkValue(v[k], path+"."+k, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("%s is a %T; only string, bool, int, list and map are allowed", path, v)
	}
}

func checkText(s, path string) error {
	if !utf8.ValidString(s) {
		return errors.New(path + " is not UTF-8 text; encode bytes as base64 or hex")
	}
	return nil
}
