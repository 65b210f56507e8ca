package catalog

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"writ"
)

var refType = reflect.TypeFor[writ.Ref]()

// schemaOf derives the schema of a struct. Each field has a tag `writ:"name,option,…"` and a tag `help:"…"`; the fields
// of an embedded struct count as its own. Permitted Go types are string, Text, bool, int64, writ.Hundredths, writ.Ref,
// slices of these and of structs, structs, and maps from string to string, Text, int64 or a struct. A field that may be
// a secret has type Text. The options:
//
//	required  mutable  byname  hidden  elsewhere  registry  waits    as in Field
//	min=N  max=N  default=V      as in Field
//	enum=a|b  kinds=a|b  form=F  of the field, or of the elements of a list or map
//	keys=F                       the form of a map's keys
//	each=N..M                    bounds of a list's integers
//	uses=P  engine=P  formats=a|b  as in Field
//	distinct=elements|NAME       as in Field
//	first=F                      the form of a list's first element
//	with=NAME  not=NAME:VALUE    as in Field
//	whole=CHECK                  a check of all fields of an object, or of each object in a list, together
//	fits=CHECK                   a check of a field together with all arguments, with a path below the field
//	beside=CHECK                 a check whether the other arguments make a field useless
//	short=NAME                   as in Field, of the elements of a map
//
// An invalid tag is a bug of this package and panics at program start.
func schemaOf[T any]() Schema { return structSchema(reflect.TypeFor[T](), nil) }

func structSchema(t reflect.Type, index []int) Schema {
	var s Schema
	for i := range t.NumField() {
		sf := t.Field(i)
		at := append(slices.Clone(index), i)
		if sf.Anonymous {
			s = append(s, structSchema(sf.Type, at)...)
			continue
		}
		f, err := newField(sf)
		if err != nil {
			panic(fmt.Sprintf("%s.%s: %v", t, sf.Name, err))
		}
		f.index = at
		s = append(s, f)
	}
	return s
}

func newField(sf reflect.StructField) (Field, error) {
	name, options, _ := strings.Cut(sf.Tag.Get("writ"), ",")
	f, err := typedField(sf.Type)
	if err != nil {
		return f, err
	}
	f.Name, f.Help = name, sf.Tag.Get("help")
	if f.Name == "" || f.Help == "" {
		return f, fmt.Errorf("name or help is missing")
	}
	if options == "" {
		return f, nil
	}
	for option := range strings.SplitSeq(options, ",") {
		if err := f.set(option); err != nil {
			return f, fmt.Errorf("option %q: %w", option, err)
		}
	}
	return f, nil
}

func typedField(t reflect.Type) (Field, error) {
	switch {
	case t == refType:
		return Field{Type: Handle}, nil
	case t == textType:
		return Field{Type: String, Secret: true}, nil
	case t.Kind() == reflect.String:
		return Field{Type: String}, nil
	case t.Kind() == reflect.Bool:
		return Field{Type: Bool}, nil
	case t == reflect.TypeFor[writ.Hundredths]():
		return Field{Type: Decimal}, nil
	case t.Kind() == reflect.Int64:
		return Field{Type: Int}, nil
	case t.Kind() == reflect.Struct:
		return Field{Type: Object, Fields: structSchema(t, nil)}, nil
	case t.Kind() == reflect.Slice:
		elem, err := typedField(t.Elem())
		return Field{Type: List, Elem: &elem}, err
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		elem, err := typedField(t.Elem())
		return Field{Type: Map, Key: &Field{Type: String}, Elem: &elem}, err
	default:
		return Field{}, fmt.Errorf("unsupported type %s", t)
	}
}

func (f *Field) set(option string) error {
	key, value, _ := strings.Cut(option, "=")
	inner := f // target of options for strings and handles
	if f.Elem != nil {
		inner = f.Elem
	}
	flags := map[string]*bool{
		"required": &f.Required, "mutable": &f.Mutable, "elsewhere": &f.Elsewhere, "byname": &inner.ByName,
		"waits":    &f.Waits,
		"registry": &inner.Registry,
		"hidden":   &inner.Hidden,
	}
	texts := map[string]*string{
		"short": &inner.Short,
		"uses":  &f.Uses, "engine": &f.Engine, "distinct": &f.Distinct, "not": &f.Not, "with": &f.With,
	}
	if flag := flags[key]; flag != nil {
		*flag = true
		return nil
	}
	if text := texts[key]; text != nil {
		*text = value
		return nil
	}
	switch key {
	case "first":
		f.First = &Field{Type: String}
		return f.First.setForm(value)
	case "enum":
		inner.Enum = strings.Split(value, "|")
	case "formats":
		f.Formats = strings.Split(value, "|")
	case "form":
		return inner.setForm(value)
	case "keys":
		return f.Key.setForm(value)
	case "kinds":
		for kind := range strings.SplitSeq(value, "|") {
			inner.Kinds = append(inner.Kinds, writ.ResourceKind(kind))
		}
	case "min":
		return setBound(f, &f.Min, value)
	case "max":
		return setBound(f, &f.Max, value)
	case "beside":
		check, ok := besides[value]
		if !ok {
			return fmt.Errorf("unknown check")
		}
		f.beside = check
	case "fits":
		check, ok := fits[value]
		if !ok {
			return fmt.Errorf("unknown check")
		}
		f.fits = check
	case "whole":
		check, ok := wholes[value]
		if !ok {
			return fmt.Errorf("unknown check")
		}
		inner.whole = check
	case "each":
		low, high, _ := strings.Cut(value, "..")
		if err := setBound(inner, &inner.Min, low); err != nil {
			return err
		}
		return setBound(inner, &inner.Max, high)
	case "default":
		return f.setDefault(value)
	default:
		return fmt.Errorf("unknown option")
	}
	return nil
}

func setBound(f *Field, bound **int64, text string) error {
	if f.Type == Decimal {
		h, err := writ.ParseHundredths(text)
		*bound = new(int64(h))
		return err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	*bound = &n
	return err
}

func (f *Field) setDefault(text string) (err error) {
	switch f.Type {
	case String:
		f.Default = text
	case Bool:
		f.Default, err = strconv.ParseBool(text)
	case Int:
		f.Default, err = strconv.ParseInt(text, 10, 64)
	case Decimal:
		var h writ.Hundredths
		h, err = writ.ParseHundredths(text)
		f.Default = decimal(h)
	default:
		err = fmt.Errorf("a %s cannot have a default", f.Type)
	}
	return err
}

func (f *Field) setForm(name string) error {
	form, ok := forms[name]
	if !ok {
		return fmt.Errorf("unknown form")
	}
	f.Pattern, f.Form, f.valid, f.useless = form.pattern.String(), form.text, form.matches, form.useless
	return nil
}
