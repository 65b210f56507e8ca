// Package cbor is the one encoding of journals and envelopes: deterministic CBOR (RFC 8949, 4.2) of the values of package writ.
// It knows nothing of what it encodes. Struct fields take their json tags as names; those of a
// struct that is tagged toarray have none.
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

// Raw is a value that is encoded already.
type Raw = cbor.RawMessage

// Marshal returns the one encoding of v.
func Marshal(v any) ([]byte, error) { return encoder.Marshal(v) }

// Unmarshal decodes b into v. It refuses unknown fields, duplicate keys, trailing bytes, and anything that Marshal would have
// written differently, so that no two byte strings mean the same.
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

// Decode decodes b into v like Unmarshal, except that other encodings of the same are taken, too: for bytes that are read once, by the one
// they are meant for, and of which nobody takes a digest. To encode again takes a third of the time.
func Decode(b []byte, v any) error { return decoder.Unmarshal(b, v) }
