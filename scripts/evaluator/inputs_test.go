package evaluator

import (
	"reflect"
	"slices"
	"testing"

	"writ/scripts"
)

// TestEveryInputFieldIsCompared also covers fields that are added later.
func TestEveryInputFieldIsCompared(t *testing.T) {
	in := scripts.Inputs{Run: "r", Allow: []string{"a"}, Params: map[string]any{"a": []any{int64(1)}}}
	kept := keptInputs{&in}
	again := in
	again.Params = map[string]any{"a": []any{int64(1)}}
	if !kept.same(&again) {
		t.Error("the same is not the same")
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[scripts.Inputs]()) {
		other := in
		switch v := reflect.ValueOf(&other).Elem().FieldByIndex(field.Index); v.Kind() {
		case reflect.String:
			v.SetString("other")
		case reflect.Int:
			v.SetInt(7)
		case reflect.Slice:
			v.Set(reflect.ValueOf([]string{"a", "b"}))
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]any{"a": []any{int64(2)}}))
		case reflect.Func, reflect.Struct: // it returns the same entries; its fields follow
			continue
		default:
			t.Fatalf("%s has a kind that this test does not support", field.Name)
		}
		if slices.Contains([]string{"Logged", "Ended", "Resumes", "First"}, field.Name) { // each request has its own value
			if !kept.same(&other) {
				t.Error("a run with more logs sends all its inputs again")
			}
			continue
		}
		if kept.same(&other) {
			t.Errorf("inputs with another %s are taken for the same", field.Name)
		}
	}
}
