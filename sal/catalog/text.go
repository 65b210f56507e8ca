package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"writ"
)

// CommonErrors returns the codes with which a call of any operation may fail.
func CommonErrors() []writ.Code {
	return []writ.Code{
		writ.CodeArgumentsInvalid, writ.CodeDependencyFailed, writ.CodeDeadlineExceeded, writ.CodeNodeLost,
		writ.CodeNoCapacity,
		writ.CodeDriverMissing, writ.CodeDriverFailed, writ.CodeDriverRefused, writ.CodeRunCancelled,
	}
}

// Errors returns the codes with which a call of the operation may fail, in addition to CommonErrors.
func (o *Operation) Errors() []writ.Code {
	var codes []writ.Code
	switch o.Effect {
	case Make:
		codes = []writ.Code{
			writ.CodeImmutableField, writ.CodeResourceConflict, writ.CodeNotOwner, writ.CodeQuotaExceeded,
			writ.CodeDiskFull,
		}
	case Run:
		codes = []writ.Code{writ.CodeResourceConflict, writ.CodeQuotaExceeded, writ.CodeDiskFull, writ.CodeProgramFailed}
	case Alter:
		codes = []writ.Code{writ.CodeResourceUnknown, writ.CodeResourceConflict, writ.CodeNotOwner}
	case Remove:
		codes = []writ.Code{writ.CodeResourceConflict, writ.CodeNotOwner, writ.CodeResourceInUse}
	case Find:
		if o.Named() {
			return []writ.Code{writ.CodeResourceUnknown}
		}
		return nil
	case Look:
		if o.Named() {
			codes = []writ.Code{writ.CodeResourceUnknown}
		}
	}
	if o.Origin != "" {
		codes = append(codes, writ.CodeResourceUnknown, writ.CodeUnreachable, writ.CodeChecksumMismatch)
	}
	if _, ok := o.Args.Field("publish"); ok {
		codes = append(codes, writ.CodePortClosed, writ.CodePortTaken)
	}
	if _, ok := o.Args.Field("login"); ok {
		codes = append(codes, writ.CodeImageUnknown, writ.CodeImagePlatform, writ.CodeRegistryDenied,
			writ.CodeRegistryLogin, writ.CodeRegistryForbidden, writ.CodeRegistryBusy)
	}
	if _, ok := o.Args.Field("files"); ok {
		codes = append(codes, writ.CodeFileTooLarge)
	}
	if _, ok := o.Args.Field("devices"); ok {
		codes = append(codes, writ.CodeDeviceForbidden)
	}
	if _, ok := o.Args.Field("health"); ok || o.AwaitsHealth {
		codes = append(codes, writ.CodeUnhealthy)
	}
	if o.Repeat != Safe {
		codes = append(codes, writ.CodeOutcomeUnknown)
	}
	return codes
}

// Facts returns short phrases about the operation: "makes a resource of kind volume", "adds data", "at most 1m by
// default".
func (o *Operation) Facts() []string {
	facts := []string{
		map[Effect]string{
			Make: "makes", Alter: "changes", Look: "reads", Remove: "deletes", Find: "finds", Run: "makes and deletes",
		}[o.Effect],
	}
	if o.Named() {
		facts[0] += fmt.Sprintf(" a resource of kind %s", o.Kind)
	}
	if o.Data != DataReads {
		facts = append(facts, string(o.Data)+" data")
	}
	if o.Repeat != Safe {
		facts = append(facts, "not repeated")
	}
	if o.Effect != Find {
		facts = append(facts, "at most "+ShortDuration(o.Timeout)+" by default")
	}
	return facts
}

// Call returns the form of a call: `volume.create(name, {size_gib: …, …}, options)`.
func (o *Operation) Call() string {
	var args []string
	if o.Named() {
		args = append(args, "name")
	}
	if o.Effect != Find {
		var fields []string
		for _, f := range o.Args {
			if f.Required {
				fields = append(fields, f.Name+": …")
			}
		}
		if len(o.Args) > len(fields) {
			fields = append(fields, "…")
		}
		args = append(args, "{"+strings.Join(fields, ", ")+"}", "options")
	}
	return o.Name() + "(" + strings.Join(args, ", ") + ")"
}

// Own returns the fields of the result that are not in every handle.
func (o *Operation) Own() Schema {
	if !o.Named() {
		return o.Result
	}
	shared := schemaOf[Identity]()
	return slices.DeleteFunc(slices.Clone(o.Result),
		func(f Field) bool { return slices.Contains(shared.Names(), f.Name) })
}

// Takes describes the type of a field: "list of strings".
func (f *Field) Takes() string {
	switch f.Type {
	case List:
		return "list of " + f.Elem.plural()
	case Map:
		return "map of " + f.Elem.plural()
	case Object:
		return "map"
	case Handle:
		text := "handle to " + string(f.Kinds[0])
		switch {
		case f.Registry:
			text += ", a name or a reference"
		case f.ByName:
			text += " or a name"
		}
		return text
	default:
		return string(f.Type)
	}
}

func (f *Field) plural() string {
	switch f.Type {
	case Object:
		if f.Short != "" {
			return "texts or maps"
		}
		return "maps"
	case Handle:
		return "handles to " + string(f.Kinds[0])
	default:
		return string(f.Type) + "s"
	}
}

// Nested returns the fields of the objects in a field. between is the text between the name of the field and the name
// of an inner field. It returns nil for a field without objects.
func Nested(f *Field) (between string, fields Schema) {
	switch {
	case f.Type == Object:
		return ".", f.Fields
	case f.Type == List && f.Elem.Type == Object:
		return "[].", f.Elem.Fields
	case f.Type == Map && f.Elem.Type == Object:
		return ".*.", f.Elem.Fields
	}
	return "", nil
}

// Limits describes the limits of a field, "" if it has none.
func (f *Field) Limits() string {
	var parts []string
	unit := map[Type]string{String: " bytes", List: " elements", Map: " entries"}[f.Type]
	switch {
	case f.Min != nil && f.Max != nil:
		parts = append(parts, fmt.Sprintf("%s to %s%s", limitText(f, *f.Min), limitText(f, *f.Max), unit))
	case f.Min != nil && *f.Min > 1:
		parts = append(parts, fmt.Sprintf("at least %d%s", *f.Min, unit))
	case f.Max != nil:
		parts = append(parts, fmt.Sprintf("at most %d%s", *f.Max, unit))
	}
	inner := f
	if f.Elem != nil {
		inner = f.Elem
		if f.Elem.Min != nil && f.Elem.Max != nil {
			parts = append(parts, fmt.Sprintf("each %d to %d", *f.Elem.Min, *f.Elem.Max))
		}
	}
	if inner.Enum != nil {
		parts = append(parts, "`"+strings.Join(inner.Enum, "`, `")+"`")
	}
	if inner.Secret {
		parts = append(parts, "may be a secret")
	}
	if inner.Form != "" {
		parts = append(parts, inner.Form)
	}
	if f.First != nil {
		parts = append(parts, "the first "+f.First.Form)
	}
	switch f.Distinct {
	case "":
	case "elements":
		parts = append(parts, "each once")
	default:
		parts = append(parts, "each `"+f.Distinct+"` once")
	}
	if f.With != "" {
		parts = append(parts, "only with `"+f.With+"`")
	}
	if other, value, ok := strings.Cut(f.Not, ":"); ok {
		parts = append(parts, "not with `"+other+"` "+value)
	}
	if f.Key != nil && f.Key.Form != "" {
		parts = append(parts, "each key "+f.Key.Form)
	}
	return strings.Join(parts, "; ")
}

// ShortDuration formats a duration without trailing zero units: "1h" instead of "1h0m0s".
func ShortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
