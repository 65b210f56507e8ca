// Package cbor is the encoding of journals and envelopes: deterministic CBOR (RFC 8949, 4.2) of the values of package
// writ. It does not interpret the values. The names of struct fields are their json tags; structs tagged toarray are
// encoded without names.
package cbor

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

var (
	encoder = must(cbor.EncOptions{
		Sort:          cbor.SortBytewiseLexical,
		IndefLength:   cbor.IndefLengthForbidden,
		TagsMd:        cbor.TagsForbidden,
		TextMarshaler: cbor.TextMarshalerTextString,
		Time:          cbor.TimeRFC3339NanoUTC,
	}.EncMode())
	decoder = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		IntDec:            cbor.IntDecConvertSignedOrFail,
		DefaultMapType:    reflect.TypeFor[map[string]any](),
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   48,
		MaxArrayElements:  1 << 17,
		MaxMapPairs:       1 << 16,
		TextUnmarshaler:   cbor.TextUnmarshalerTextString,
		UTF8:              cbor.UTF8RejectInvalid,
	}.DecMode())
)

func must[M any](m M, err error) M {
	if err != nil {
		panic(err) // the options above are constants
	}
	return m
}

// Raw is an encoded value.
type Raw = cbor.RawMessage

// Marshal returns the only valid encoding of v.
func Marshal(v any) ([]byte, error) { return encoder.Marshal(v) }

// Unmarshal decodes b into v. It rejects unknown fields, duplicate keys, trailing bytes, and every encoding that
// differs from Marshal's, so that each value has exactly one encoding.
func Unmarshal(b []byte, v any) error {
	if err := decoder.Unmarshal(b, v); err != nil {
		return err
	}
	again, err := encoder.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode again: %w", err)
	}
	if !bytes.Equal(b, again) {
		return errors.New("not in deterministic form")
	}
	return nil
}

// Decode decodes b into v like Unmarshal, but also accepts other encodings of the value. It is for bytes that only one
// process reads, and whose digest is not used. It saves a third of the time of Unmarshal, which encodes the value again
// to compare it.
func Decode(b []byte, v any) error { return decoder.Unmarshal(b, v) }
