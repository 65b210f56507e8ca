package writ

import "fmt"

// Values are what scripts, journals, jobs and results carry: string, bool, int64, nil, []any and map[string]any of these.
// There are no floats (their printing and arithmetic differ between machines) and no other integers.

// CheckValue returns an error that names the first place in v that is not a value of this system, nil if there is none.
func CheckValue(v any) error { return checkValue(v, "value", 0) }

// MaxValueDepth bounds how deep lists and maps may be nested.
const MaxValueDepth = 32

func checkValue(v any, path string, depth int) error {
	if depth > MaxValueDepth {
		return fmt.Errorf("%s is nested deeper than %d", path, MaxValueDepth)
	}
	switch v := v.(type) {
	case nil, string, bool, int64:
		return nil
	case []any:
		for i, e := range v {
			if err := checkValue(e, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for k, e := range v {
			if err := checkValue(e, path+"."+k, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("%s is a %T; only string, bool, int, list and map are possible", path, v)
	}
}
