package evaluator

import (
	"reflect"
	"slices"

	"writ"
	"writ/scripts"
)

// maxJournals bounds the memory of the journals that a child keeps, and so those of its twin in the parent. With the programs and the
// values of a pass it stays below what a child may have.
const maxJournals = 16 << 20

// maxKept bounds how many there are. A run that ends in one child leaves its journal behind in the others, where nobody asks for it again.
const maxKept = 512

// journals keeps the journals of the runs that were evaluated last. A child and its parent have one each and treat them alike, step for
// step; so the parent knows what the child has, and sends only what is different.
type journals struct {
	most  int            // bytes
	list  []*keptJournal // the last used first
	runs  map[writ.RunID]*keptJournal
	bytes int
}

// memoryOfJournal is about how many bytes a journal takes besides its entries.
const memoryOfJournal = 256

// keptJournal is the journal of a run as it was in its last pass.
type keptJournal struct {
	run     writ.RunID
	version uint64
	entries []scripts.Entry // by seq: entries[i].Seq == i+1
	bytes   int
	inputs  keptInputs
}

// keptInputs are those of the last pass of a run: they hardly change from one to the next.
type keptInputs struct{ those *scripts.Inputs } // nil if they are too big to be kept

// maxInputs is how many bytes inputs may take that are kept: all together 2 MiB at the most.
const maxInputs = 4 << 10

// same reports whether these are the inputs that are kept.
func (k keptInputs) same(in *scripts.Inputs) bool {
	a := k.those
	return a == in || a != nil && a.Run == in.Run && a.Project == in.Project && a.Datacenter == in.Datacenter && a.DatacenterName == in.DatacenterName &&
		a.MaxCalls == in.MaxCalls && slices.Equal(a.Allow, in.Allow) && slices.Equal(a.Secrets, in.Secrets) && sameMap(a.Params, in.Params)
}

// keep keeps the inputs of the pass for which the journal of a run was taken last.
func (j *journals) keep(run writ.RunID, in *scripts.Inputs) {
	k := j.find(run)
	if k == nil || k.inputs.those == in {
		return
	}
	k.inputs.those = nil
	size := memoryOf(in.Params) + len(in.Project) + len(in.Datacenter) + len(in.DatacenterName)
	for _, names := range [][]string{in.Allow, in.Secrets} {
		for _, name := range names {
			size += memoryOf(name)
		}
	}
	if size <= maxInputs {
		k.inputs.those = in
	}
}

// difference is what makes a journal out of an earlier one of the same run.
type difference struct {
	_       struct{} `cbor:",toarray"`
	Base    uint64   // the version of the earlier one; 0 if Entries is the whole journal
	Version uint64   // of the journal; a child sees each but once
	Count   int      // of its entries
	Entries []scripts.Entry
}

// find returns the journal of a run, nil if it is not kept.
func (j *journals) find(run writ.RunID) *keptJournal { return j.runs[run] }

// difference returns what is to be sent so that the other side has this journal, too.
func (j *journals) difference(run writ.RunID, version uint64, journal []scripts.Entry) difference {
	d := difference{Version: version, Count: len(journal), Entries: journal}
	k := j.find(run)
	if k == nil || len(journal) < len(k.entries) || !inOrder(journal) {
		return d
	}
	d.Base, d.Entries = k.version, nil
	for i := range journal {
		if i >= len(k.entries) || !sameEntry(&journal[i], &k.entries[i]) {
			d.Entries = append(d.Entries, journal[i])
		}
	}
	return d
}

// take applies a difference and returns the journal, which is valid until the next one. It reports false, and changes nothing, if what
// the difference builds on is not here: then the whole journal is needed.
func (j *journals) take(run writ.RunID, d difference) (journal []scripts.Entry, ok bool) {
	k := j.find(run)
	switch {
	case d.Base == 0 && len(d.Entries) == d.Count:
		k = whole(run, d.Entries)
	case d.Base == 0 || k == nil || k.version != d.Base || !k.fits(d):
		return nil, false
	}
	j.forget(run)
	if d.Base != 0 {
		k.change(d.Entries)
	}
	k.version = d.Version
	if len(k.entries) > 0 && k.bytes <= j.most && inOrder(k.entries) { // one without entries saves nothing
		if j.runs == nil {
			j.runs = make(map[writ.RunID]*keptJournal)
		}
		j.list = slices.Insert(j.list, 0, k)
		j.runs[run] = k
		j.bytes += k.bytes
	}
	for j.bytes > j.most || len(j.list) > maxKept {
		j.forget(j.list[len(j.list)-1].run)
	}
	return k.entries, true
}

// dropEnded gives up the journal of a run whose script has ended: it will hardly be evaluated again.
func (j *journals) dropEnded(run writ.RunID, outcome *scripts.Outcome) {
	if outcome.Status != scripts.Waiting {
		j.forget(run)
	}
}

// forget gives up the journal of a run.
func (j *journals) forget(run writ.RunID) {
	k := j.runs[run]
	if k == nil {
		return
	}
	i := slices.Index(j.list, k)
	j.list = slices.Delete(j.list, i, i+1)
	delete(j.runs, run)
	j.bytes -= k.bytes
}

func whole(run writ.RunID, entries []scripts.Entry) *keptJournal {
	k := &keptJournal{run: run, entries: slices.Clone(entries), bytes: memoryOfJournal}
	for i := range entries {
		k.bytes += memoryOfEntry(&entries[i])
	}
	return k
}

// fits reports whether the entries of d change entries of the journal, or follow it one by one, and give as many as d says.
func (k *keptJournal) fits(d difference) bool {
	count := len(k.entries)
	for i := range d.Entries {
		if seq := d.Entries[i].Seq; seq < 1 || seq > count+1 {
			return false
		}
		count = max(count, d.Entries[i].Seq)
	}
	return count == d.Count
}

func (k *keptJournal) change(entries []scripts.Entry) {
	for i := range entries {
		at := entries[i].Seq - 1
		if at == len(k.entries) {
			k.entries = append(k.entries, entries[i])
		} else {
			k.bytes -= memoryOfEntry(&k.entries[at])
			k.entries[at] = entries[i]
		}
		k.bytes += memoryOfEntry(&entries[i])
	}
}

// inOrder reports whether a journal is one that can be kept.
func inOrder(journal []scripts.Entry) bool {
	for i := range journal {
		if journal[i].Seq != i+1 {
			return false
		}
	}
	return true
}

func sameEntry(a, b *scripts.Entry) bool {
	return a.Seq == b.Seq && a.Hash == b.Hash && a.State == b.State && sameError(a.Error, b.Error) && sameMap(a.Values, b.Values)
}

func sameError(a, b *writ.Error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Code == b.Code && a.Message == b.Message && a.Hint == b.Hint
}

// sameValue reports whether two values are encoded alike. It is asked for every value of a journal in every pass.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b
	case int64:
		b, ok := b.(int64)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case nil:
		return b == nil
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && sameMap(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	default:
		return reflect.DeepEqual(a, b)
	}
}

func sameMap(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for key, v := range a {
		other, ok := b[key]
		if !ok || !sameValue(v, other) {
			return false
		}
	}
	return true
}

// memoryOfEntry is about how many bytes an entry takes in memory.
func memoryOfEntry(e *scripts.Entry) int {
	size := int(reflect.TypeFor[scripts.Entry]().Size()) + memoryOf(e.Values)
	if e.Error != nil {
		size += 64 + len(e.Error.Code) + len(e.Error.Message) + len(e.Error.Hint)
	}
	return size
}

func memoryOf(v any) int {
	const place, group, pair = 32, 400, 64 // of a value in a list, of a map with up to 8 keys, of each key
	switch v := v.(type) {
	case string:
		return place + len(v)
	case []any:
		size := place
		for _, e := range v {
			size += memoryOf(e)
		}
		return size
	case map[string]any:
		if len(v) == 0 {
			return place
		}
		size := group
		for key, e := range v {
			size += pair + len(key) + memoryOf(e)
		}
		return size
	default:
		return place
	}
}
