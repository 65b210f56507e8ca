package envelope

import (
	"errors"
	"slices"

	"writ/internal/cbor"
)

// namedKinds lists the kinds whose envelopes name their kind. They share the stream from a node to its supervisor,
// which needs the kind to choose a handler. Each other kind has its own channel, so its envelopes do not need the name.
var namedKinds = []Kind{Result, Beat, Report, Host, Log, Load}

func (k Kind) isNamed() bool { return slices.Contains(namedKinds, k) }

// named is the wire format of an envelope that names its kind.
type named struct {
	_         struct{} `cbor:",toarray"`
	Kind      Kind
	Key       []byte
	Signature []byte
	Frame     []byte
	Record    []byte
}

// KindOf returns the kind that an envelope names, or "" if the envelope names no kind. The kind is a claim: only Open
// verifies it, and refuses an envelope whose name was changed, added or removed. KindOf reads the first bytes only; the
// rest may be malformed.
func KindOf(signed []byte) Kind {
	const shortText = 0x60 // CBOR: a text of less than 24 bytes, whose length is in the lower bits
	if !startsNamed(signed) || len(signed) < 2 || signed[1] < shortText || signed[1] >= shortText+24 {
		return ""
	}
	end := 2 + int(signed[1]-shortText)
	if end > len(signed) {
		return ""
	}
	for _, kind := range namedKinds {
		if string(signed[2:end]) == string(kind) {
			return kind // without an allocation
		}
	}
	return Kind(signed[2:end])
}

// startsNamed reports whether signed starts like an encoded envelope with a name, which is a list of five items.
func startsNamed(signed []byte) bool { return len(signed) > 0 && signed[0] == 0x85 }

// encode returns the encoding of an envelope. The encoding includes the kind if e.kind is set.
func encode(e envelope) ([]byte, error) {
	if e.kind == "" {
		return cbor.Marshal(e)
	}
	return cbor.Marshal(named{Kind: e.kind, Key: e.Key, Signature: e.Signature, Frame: e.Frame, Record: e.Record})
}

// decode reads an envelope of either form.
func decode(signed []byte) (envelope, error) {
	if !startsNamed(signed) {
		var e envelope
		err := cbor.Unmarshal(signed, &e)
		return e, err
	}
	var n named
	if err := cbor.Unmarshal(signed, &n); err != nil {
		return envelope{}, err
	}
	if n.Kind == "" {
		return envelope{}, errors.New("the name of the kind is empty")
	}
	return envelope{Key: n.Key, Signature: n.Signature, Frame: n.Frame, Record: n.Record, kind: n.Kind}, nil
}
