package interpreter

import (
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"

	"writ/scripts"
)

// printer writes a value as text, with limits, and maps in the order of their keys.
type printer struct {
	fuel      *meter
	out       strings.Builder
	forPeople bool                  // secrets and unknown values are shown by name instead of rejected
	planned   []scripts.PlannedCall // the calls that unknown values depend on
}

// text returns o as "" + o would: a string unchanged, all other values printed. A secret is an error, because the text
// would contain its name instead of its value.
func text(fuel *meter, o tengo.Object) (string, error) {
	w := printer{fuel: fuel}
	return w.text(o)
}

// textForPeople returns the text of o for people. It shows secrets by name, and unknown values by the calls that they
// wait for.
func (p *pass) textForPeople(o tengo.Object) (string, error) {
	w := printer{fuel: &p.meter, forPeople: true}
	if p.plan != nil {
		w.planned = p.plan.calls
	}
	return w.text(o)
}

func (w *printer) text(o tengo.Object) (string, error) {
	if s, ok := o.(*tengo.String); ok {
		return s.Value, nil
	}
	if err := w.print(o, 0); err != nil {
		return "", err
	}
	if w.out.Len() > maxString {
		return "", tengo.ErrStringLimit
	}
	return w.out.String(), w.fuel.burnMemory(w.out.Len())
}

func (w *printer) print(o tengo.Object, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if w.out.Len() > maxString {
		return tengo.ErrStringLimit
	}
	if list, ok := elementsOf(o); ok {
		return w.elements("[", "]", len(list), func(i int) error { return w.print(list[i], depth+1) })
	}
	if m, ok := pairsOf(o); ok {
		keys, err := w.fuel.keys(m)
		if err != nil {
			return err
		}
		return w.elements("{", "}", len(keys), func(i int) error {
			w.out.WriteString(keys[i])
			w.out.WriteString(": ")
			return w.print(m[keys[i]], depth+1)
		})
	}
	switch o := o.(type) {
	case *tengo.Int: // the most frequent type
		w.out.WriteString(strconv.FormatInt(o.Value, 10))
		return nil
	case *tengo.Error:
		w.out.WriteString("error")
		if o.Value == nil {
			return nil
		}
		w.out.WriteString(": ")
		return w.print(o.Value, depth+1)
	case *unknown:
		if !w.forPeople {
			panic(o.here("a text")) // the script was about to get this text
		}
		w.out.WriteString(scripts.KnownAfterText(w.planned, o.after))
		return nil
	case *secret:
		if !w.forPeople {
			return o.misused()
		}
	}
	w.out.WriteString(o.String())
	return nil
}

// elements writes n elements in brackets.
func (w *printer) elements(open, end string, n int, each func(i int) error) error {
	if err := w.fuel.burn(int64(n)); err != nil {
		return err
	}
	w.out.WriteString(open)
	for i := range n {
		if i > 0 {
			w.out.WriteString(", ")
		}
		if err := each(i); err != nil {
			return err
		}
	}
	w.out.WriteString(end)
	return nil
}
