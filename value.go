package writ

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// Values are what scripts, journals, jobs and results carry: string, bool, int64, nil, []any and map[string]any of these.
// There are no floats (their printing and arithmetic differ between machines) and no other integers. Strings are UTF-8: what
// decodes a journal or an envelope refuses others, so they must not get in.

// CheckValue returns an error that names the first place in v, in order of keys, that is not a value of this system; nil if there is none.
func CheckValue(v any) error { return checkValue(v, "value", 0) }

// MaxValueDepth bounds how deep lists and maps may be nested.
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
		return fmt.Errorf("%s is a %T; only string, bool, int, list and map are possible", path, v)
	}
}

func checkText(s, path string) error {
	if !utf8.ValidString(s) {
		return errors.New(path + " is not UTF-8 text; encode bytes as base64 or hex")
	}
	return nil
}
