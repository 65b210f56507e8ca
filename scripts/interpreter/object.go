package interpreter

import "github.com/d5/tengo/v2"

func boolean(b bool) tengo.Object {
	if b {
		return tengo.TrueValue
	}
	return tengo.FalseValue
}

// elementsOf returns the elements of a list.
func elementsOf(o tengo.Object) ([]tengo.Object, bool) {
	switch o := o.(type) {
	case *tengo.Array:
		return o.Value, true
	case *tengo.ImmutableArray:
		return o.Value, true
	default:
		return nil, false
	}
}

// pairsOf returns the keys and values of a map.
func pairsOf(o tengo.Object) (map[string]tengo.Object, bool) {
	switch o := o.(type) {
	case *tengo.Map:
		return o.Value, true
	case *tengo.ImmutableMap:
		return o.Value, true
	case *record:
		return o.fields, true
	default:
		return nil, false
	}
}

// sortedMap iterates over a map in the order of its keys. Keys deleted during the iteration are skipped; added keys do
// not appear.
type sortedMap struct {
	tengo.ObjectImpl
	pairs map[string]tengo.Object
	keys  []string
	next  int
}

func (s *sortedMap) TypeName() string        { return "map-iterator" }
func (s *sortedMap) String() string          { return "<map-iterator>" }
func (s *sortedMap) CanIterate() bool        { return true }
func (s *sortedMap) Iterate() tengo.Iterator { return s }
func (s *sortedMap) Key() tengo.Object       { return &tengo.String{Value: s.keys[s.next-1]} }
func (s *sortedMap) Value() tengo.Object     { return s.pairs[s.keys[s.next-1]] }

func (s *sortedMap) Next() bool {
	for s.next < len(s.keys) {
		s.next++
		if _, ok := s.pairs[s.keys[s.next-1]]; ok {
			return true
		}
	}
	return false
}
