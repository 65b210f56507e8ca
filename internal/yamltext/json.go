package yamltext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// readJSON reads valid JSON. Unlike json.Unmarshal, it refuses repeated keys instead of keeping the last value.
func readJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return nextJSON(d)
}

func nextJSON(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	if s, ok := token.(string); ok && strings.ContainsRune(s, utf8.RuneError) {
		// package json replaced half of a surrogate pair
		return nil, fmt.Errorf("%q has an escape that is not a character", s)
	}
	switch token {
	case json.Delim('['):
		return listJSON(d)
	case json.Delim('{'):
		return objectJSON(d)
	}
	return token, nil
}

func listJSON(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		v, err := nextJSON(d)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

func objectJSON(d *json.Decoder) (any, error) {
	all := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if _, repeated := all[key]; repeated {
			return nil, fmt.Errorf("the key %q is repeated", key)
		}
		if all[key], err = nextJSON(d); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return all, err
}
