package interpreter

import (
	"reflect"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/scripts"
)

var errFuel = writ.Errorf(writ.CodeScriptLimit, "the script does too much in one pass: it has %d units of work",
	scripts.MaxFuel).
	WithHint("a script describes work and leaves it to nodes; look for a loop that does not end")

// burn uses 1 + n units of fuel.
func (p *pass) burn(n int64) error {
	if p.fuel -= 1 + n; p.fuel < 0 {
		return errFuel
	}
	return nil
}

// Approximate sizes of values in memory, in bytes.
const (
	sizeObject = 16  // an element of a list; a number needs the same again
	sizeMap    = 350 // a map with up to 8 keys
	sizeKey    = 64  // each key of a bigger map
)

// burnMemory burns fuel for memory that may stay in use.
func (p *pass) burnMemory(bytes int) error { return p.burn(int64(bytes) / 6) }

// weigh burns fuel for reading a text: one unit for every given number of bytes.
func (p *pass) weigh(o tengo.Object, bytes int) error {
	switch o := o.(type) {
	case *tengo.String:
		return p.burn(int64(len(o.Value) / bytes))
	case *tengo.Bytes:
		return p.burn(int64(len(o.Value) / bytes))
	default:
		return nil
	}
}

// runes burns fuel for the decoded characters of a text. Tengo decodes and stores them at the first access to a
// character.
func (p *pass) runes(o tengo.Object) error {
	s, ok := o.(*tengo.String)
	if !ok || !reflect.ValueOf(s).Elem().FieldByName("runeStr").IsNil() {
		return nil
	}
	return p.burnMemory(4 * len(s.Value))
}
