package markup

import (
	"strings"
	"unicode"
)

// Href is the target of a link, and Action is the target of a form. The target is a page of the same site, or an anchor
// on the same page; any other address becomes "#".

func Href(address string) Node   { return valued("href", local(address)) }
func Action(address string) Node { return valued("action", local(address)) }

// local returns address if it is on the same site, and otherwise "#", the top of the page. Browsers ignore control
// characters and treat a backslash as a slash.
func local(address string) string {
	here := strings.HasPrefix(address, "#")
	beside := strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//") && !strings.HasPrefix(address, `/\`)
	if !here && !beside || strings.ContainsFunc(address, unicode.IsControl) {
		return "#"
	}
	return address
}

// Attributes of HTML and SVG.

func AutoComplete(value string) Node { return valued("autocomplete", value) }
func Charset(value string) Node      { return valued("charset", value) }
func Class(value string) Node        { return valued("class", value) }
func ColSpan(value string) Node      { return valued("colspan", value) }
func Content(value string) Node      { return valued("content", value) }
func DateTime(value string) Node     { return valued("datetime", value) }
func ID(value string) Node           { return valued("id", value) }
func Lang(value string) Node         { return valued("lang", value) }
func Method(value string) Node       { return valued("method", value) }
func Name(value string) Node         { return valued("name", value) }
func Placeholder(value string) Node  { return valued("placeholder", value) }
func Rel(value string) Node          { return valued("rel", value) }
func Role(value string) Node         { return valued("role", value) }
func Scope(value string) Node        { return valued("scope", value) }
func SpellCheck(value string) Node   { return valued("spellcheck", value) }
func TabIndex(value string) Node     { return valued("tabindex", value) }
func Title(value string) Node        { return valued("title", value) }
func Type(value string) Node         { return valued("type", value) }
func Value(value string) Node        { return valued("value", value) }

// Hidden and Selected have no value.

func Hidden() Node   { return flag("hidden") }
func Selected() Node { return flag("selected") }

// Stretched scales a picture to the width of its container.
func Stretched() Node { return valued("preserveAspectRatio", "none") }

// Aria, Data and HX are the attributes aria-name, data-name and hx-name; Mark is data-name without a value.

func Aria(name, value string) Node { return valued("aria-"+name, value) }
func Data(name, value string) Node { return valued("data-"+name, value) }
func HX(name, value string) Node   { return valued("hx-"+name, value) }
func Mark(name string) Node        { return flag("data-" + name) }

// The functions below are not inlined, to keep the code of pages small; see container.

//go:noinline
func valued(name, value string) Node { return attribute{name: name, value: value} }

//go:noinline
func flag(name string) Node { return attribute{name: name, flag: true} }

// given is an attribute that is omitted if its value is empty.
func given(name, value string) Node {
	if value == "" {
		return nil
	}
	return valued(name, value)
}
