package front

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"writ"
	"writ/coord/api/apiserver"
)

// CheckParameters rejects unknown query parameters, empty parameters, and lists with an empty item: a misspelled
// filter, or a filter with an empty shell variable, would select everything.
func CheckParameters(next apiserver.StrictHandlerFunc, _ string) apiserver.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		known := map[string]reflect.Value{}
		if params := reflect.ValueOf(request).FieldByName("Params"); params.IsValid() {
			for field, value := range params.Fields() {
				if name, _, _ := strings.Cut(field.Tag.Get("form"), ","); name != "" {
					known[name] = value
				}
			}
		}
		query, err := url.ParseQuery(r.URL.RawQuery) // URL.Query ignores invalid parameters
		if err != nil {
			return nil, writ.Errorf(writ.CodeBadRequest, "invalid query: %v", err).
				WithHint("escape special characters, like %%3B for a semicolon")
		}
		for name, values := range query {
			value, ok := known[name]
			switch {
			case !ok:
				return nil, writ.Errorf(writ.CodeBadRequest, "unknown parameter %q", name)
			case slices.Contains(values, ""):
				return nil, WrongParameter(name, "is empty")
			case hasEmptyItem(value):
				return nil, WrongParameter(name, "has an empty item")
			}
		}
		return next(ctx, w, r, request)
	}
}

// hasEmptyItem reports whether a parameter is a list that contains "".
func hasEmptyItem(value reflect.Value) bool {
	if value.Kind() != reflect.Slice {
		return false
	}
	for _, item := range value.Seq2() {
		if item.Kind() == reflect.String && item.Len() == 0 {
			return true
		}
	}
	return false
}
