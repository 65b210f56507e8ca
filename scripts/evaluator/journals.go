package evaluator

import (
	"reflect"
	"slices"

	"writ"
	"writ/scripts"
)

// maxJournals limits the memory of the journals in a child, and of their copies in the parent. Together with programs
// and the values of a pass it stays below the limits of a child.
const maxJournals = 16 << 20

// maxKept limits the number of journals. A run that ends in one child leaves unused journals in other children.
const maxKept = 512

// journals holds the journals of the most recently evaluated runs. A child and its parent apply the same operations to
// their own copies, so the parent knows which journals the child has and sends only differences.
type journals struct {
	most  int            // bytes
	whole int            // see keptWhole
	list  []*keptJournal // most recently used first
	runs  map[writ.RunID]*keptJournal
	bytes int
}

// memoryOfJournal is the approximate memory of a journal without its entries, in bytes.
const memoryOfJournal = 256

// keptWhole is the maximum number of entries of a journal that is kept whole. A longer or too large journal loses its
// ended entries. A suspended pass does not need them. If the suspended pass is gone, the child requests the whole
// journal.
const keptWhole = scripts.MaxOpenCalls

// keptJournal is the journal of a run's last pass.
type keptJournal struct {
	run     writ.RunID
	version uint64
	first   int             // number of dropped entries
	entries []scripts.Entry // by sequence number: entries[i].Seq == first+i+1
	bytes   int
	inputs  keptInputs
	ended   int // see scripts.Inputs
	resumes int // of the run
}

// count returns the number of entries, with the dropped ones.
func (k *keptJournal) count() int { return k.first + len(k.entries) }

// keptInputs are the inputs of a run's last pass. They rarely change between passes.
type keptInputs struct{ those *scripts.Inputs } // nil if they are too big

// maxInputs limits the bytes of stored inputs of a run: in total at most 2 MiB.
const maxInputs = 4 << 10

// same reports whether the inputs `in` equal the stored inputs.
func (k keptInputs) same(in *scripts.Inputs) bool {
	a := k.those
	return a == in ||
		a != nil && a.Run == in.Run && a.Project == in.Project && a.Datacenter == in.Datacenter && a.DatacenterName ==
			in.DatacenterName &&
			a.MaxCalls == in.MaxCalls && slices.Equal(a.Allow, in.Allow) && slices.Equal(a.Secrets, in.Secrets) &&
			slices.Equal(a.Images, in.Images) && slices.Equal(a.Prune, in.Prune) && sameMap(a.Params, in.Params)
}

// storeInputs stores the inputs of a run's last pass, if the journal of the run is stored.
func (j *journals) storeInputs(run writ.RunID, in *scripts.Inputs) {
	k := j.find(run)
	if k == nil || k.inputs.those == in {
		return
	}
	k.inputs.those = nil
	size := memoryOf(in.Params) + len(in.Project) + len(in.Datacenter) + len(in.DatacenterName)
	for _, names := range [][]string{in.Allow, in.Secrets, in.Images, in.Prune} {
		for _, name := range names {
			size += memoryOf(name)
		}
	}
	if size <= maxInputs {
		stored := *in
		stored.Past = scripts.Past{} // otherwise it would hold the caller's data in memory
		k.inputs.those = &stored
	}
}

// difference converts an earlier journal of a run to a later journal.
type difference struct {
	_       struct{} `cbor:",toarray"`
	Base    uint64   // the version of the earlier journal; 0 if Entries is the whole journal
	Version uint64   // of the later journal; a child gets each version once
	Count   int      // number of entries of the later journal
	Ended   int      // see scripts.Inputs
	Resumes int      // of the run
	Entries []scripts.Entry
}

// find returns the journal of a run, or nil.
func (j *journals) find(run writ.RunID) *keptJournal { return j.runs[run] }

// wholeJournal returns the difference between no journal and a whole journal.
func wholeJournal(in *scripts.Inputs, version uint64, journal []scripts.Entry) difference {
	return difference{
		Version: version, Count: in.First + len(journal), Ended: in.Ended, Resumes: in.Resumes, Entries: journal,
	}
}

// base returns the earlier journal of a difference, nil if the child needs the whole journal. An entry that had ended in
// the earlier journal has not changed, so the new journal may lack it.
func (j *journals) base(in *scripts.Inputs, journal []scripts.Entry) *keptJournal {
	k := j.find(in.Run)
	if k == nil || in.First+len(journal) < k.count() || k.first > in.Ended || k.resumes != in.Resumes ||
		in.First > k.ended || !inOrder(journal[max(k.first-in.First, 0):], max(k.first, in.First)) {
		return nil
	}
	return k
}

// difference returns the data that the child needs to make this journal from its last journal of the run.
func (j *journals) difference(in *scripts.Inputs, version uint64, journal []scripts.Entry) difference {
	d := wholeJournal(in, version, journal)
	k := j.base(in, journal)
	if k == nil {
		return d
	}
	d.Base, d.Entries = k.version, nil
	for i := max(k.first-in.First, 0); i < len(journal); i++ {
		at := in.First + i - k.first
		if at >= len(k.entries) || !sameEntry(&journal[i], &k.entries[at]) {
			d.Entries = append(d.Entries, journal[i])
		}
	}
	return d
}

// apply applies a difference and returns the journal, which is valid until the next call. The journal is nil if some of
// its entries were dropped. If the base of the difference is missing, apply returns false and does not change the
// journals. The parent must then send the whole journal.
func (j *journals) apply(run writ.RunID, d difference) (journal []scripts.Entry, ok bool) {
	k := j.find(run)
	switch {
	case d.Base == 0 && len(d.Entries) == d.Count:
		k = whole(run, d.Entries)
	case d.Base == 0 || k == nil || k.version != d.Base || k.resumes != d.Resumes || !k.fits(d):
		return nil, false
	}
	j.forget(run)
	if d.Base != 0 {
		k.change(d.Entries)
	}
	k.version, k.ended, k.resumes = d.Version, d.Ended, d.Resumes
	if k.first == 0 {
		journal = k.entries
	}
	ordered := d.Base != 0 || inOrder(k.entries, 0)
	if ordered && k.bytes <= j.most {
		k.drop(d.Ended, j.whole)
	} else if ordered {
		k.drop(d.Ended, 0)
	}
	// An empty journal is not kept, because its next difference would be as long. A kept journal is in order already.
	if k.count() > 0 && k.bytes <= j.most && ordered {
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
	return journal, true
}

// dropEnded drops the journal of a run whose script has ended: further passes are unlikely.
func (j *journals) dropEnded(run writ.RunID, outcome *scripts.Outcome) {
	if outcome.Status != scripts.Waiting {
		j.forget(run)
	}
}

// forget drops the journal of a run.
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

// drop drops the ended entries of a journal that is longer than `whole`. It drops many at once, because that moves the
// other entries.
func (k *keptJournal) drop(ended, whole int) {
	n := min(ended-k.first, len(k.entries))
	if k.count() <= whole || n < min(len(k.entries), whole/2) {
		return
	}
	for i := range k.entries[:n] {
		k.bytes -= memoryOfEntry(&k.entries[i])
	}
	k.first, k.entries = k.first+n, slices.Clone(k.entries[n:])
}

// fits reports whether the entries of d replace entries of the journal or extend it without a gap, and result in
// d.Count entries.
func (k *keptJournal) fits(d difference) bool {
	count := k.count()
	for i := range d.Entries {
		if seq := d.Entries[i].Seq; seq <= k.first || seq > count+1 {
			return false
		}
		count = max(count, d.Entries[i].Seq)
	}
	return count == d.Count
}

func (k *keptJournal) change(entries []scripts.Entry) {
	for i := range entries {
		at := entries[i].Seq - 1 - k.first
		if at == len(k.entries) {
			k.entries = append(k.entries, entries[i])
		} else {
			k.bytes -= memoryOfEntry(&k.entries[at])
			k.entries[at] = entries[i]
		}
		k.bytes += memoryOfEntry(&entries[i])
	}
}

// inOrder reports whether the entries of a journal after its first ones are complete and in order.
func inOrder(entries []scripts.Entry, first int) bool {
	for i := range entries {
		if entries[i].Seq != first+i+1 {
			return false
		}
	}
	return true
}

func sameEntry(a, b *scripts.Entry) bool {
	return a.Seq == b.Seq && a.Hash == b.Hash && a.State == b.State && sameError(a.Error, b.Error) &&
		sameMap(a.Values, b.Values)
}

func sameError(a, b *writ.Error) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Code == b.Code && a.Message == b.Message && a.Hint == b.Hint
}

// sameValue reports whether two values have the same encoding. It runs for every value of a journal in every pass.
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
	switch {
	case len(a) != len(b):
		return false
	case len(a) == 0 || reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer(): // most results of a run
		return true
	}
	for key, v := range a {
		other, ok := b[key]
		if !ok || !sameValue(v, other) {
			return false
		}
	}
	return true
}

// memoryOfEntry estimates the memory of an entry, in bytes.
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
