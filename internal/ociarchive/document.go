package ociarchive

import (
	"encoding/json"
	"fmt"
)

// maxValues limits the values of a manifest, index or config. A value can take a hundred times its length in memory: an
// entry of an index may be "{}". 500 layers with ten annotations each have about 15,000 values.
const maxValues = 50_000

// Decode decodes a manifest, index or config. It fails without decoding a text with more than maxValues values.
func Decode(text []byte, into any) error {
	if valuesOf(text) > maxValues {
		return fmt.Errorf("it has more than %d values", maxValues)
	}
	return json.Unmarshal(text, into)
}

// valuesOf returns an upper limit of the values in a JSON text: each but the first follows a comma, a colon or an opening
// bracket outside of strings.
func valuesOf(text []byte) int {
	count, inString := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case !inString && (c == ',' || c == ':' || c == '[' || c == '{'):
			count++
		}
	}
	return count
}
