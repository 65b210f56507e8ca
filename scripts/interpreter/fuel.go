package interpreter

import (
	"maps"
	"reflect"
	"slices"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/scripts"
)

// Limits of a program and its values.
const (
	maxConstants = 65_000    // literals of a program with all its modules
	maxString    = 256 << 10 // bytes of a string or of bytes
	maxDepth     = 64        // of values that are printed, compared, copied or encoded
)

var errFuel = writ.Errorf(writ.CodeScriptLimit, "the script does too much in one pass: it has %d units of work",
	scripts.MaxFuel).
	WithHint("a script describes work and leaves it to nodes; look for a loop that does not end")

// meter measures and limits the work of a pass: everything that a script does burns fuel. Functions that do not depend
// on the state of the pass take its meter alone.
type meter struct{ fuel int64 }

// newMeter returns the meter of a new pass.
func newMeter() meter { return meter{fuel: scripts.MaxFuel} }

// burned returns the fuel used so far.
func (m *meter) burned() int64 { return scripts.MaxFuel - m.fuel }

// burn uses 1 + n units of fuel.
func (m *meter) burn(n int64) error {
	if m.fuel -= 1 + n; m.fuel < 0 {
		return errFuel
	}
	return nil
}

// Approximate sizes of values in memory, in bytes.
const (
	sizeObject = 16  // an element of a list; a number needs another 16 bytes
	sizeMap    = 350 // a map with up to 8 keys
	sizeKey    = 64  // each key of a bigger map
)

// burnMemory burns fuel for memory that may stay in use.
func (m *meter) burnMemory(bytes int) error { return m.burn(int64(bytes) / 6) }

// weigh burns fuel for reading a text or bytes: one unit for each `bytes` bytes.
func (m *meter) weigh(o tengo.Object, bytes int) error {
	switch o := o.(type) {
	case *tengo.String:
		return m.burn(int64(len(o.Value) / bytes))
	case *tengo.Bytes:
		return m.burn(int64(len(o.Value) / bytes))
	default:
		return nil
	}
}

// runes burns fuel for the decoded characters of a text. Tengo decodes and stores them at the first access to a
// character.
func (m *meter) runes(o tengo.Object) error {
	s, ok := o.(*tengo.String)
	if !ok || !reflect.ValueOf(s).Elem().FieldByName("runeStr").IsNil() {
		return nil
	}
	return m.burnMemory(4 * len(s.Value))
}

// keys returns the keys of a map in order. The fuel depends on the lengths of the keys, too.
func (m *meter) keys(pairs map[string]tengo.Object) ([]string, error) {
	size := len(pairs)
	for key := range pairs {
		size += len(key) / 8
	}
	if err := m.burn(int64(size)); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(pairs)), nil
}
