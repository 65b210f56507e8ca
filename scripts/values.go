package scripts

// Values of calls are plain maps, lists and scalars. A handle and an unknown value are maps with one special key.

// RefKey is the only key of an encoded handle.
const RefKey = "ref"

// RefOf decodes an encoded handle, {"ref": seq}.
func RefOf(v any) (seq int, ok bool) {
	m, _ := v.(map[string]any)
	n, ok := m[RefKey].(int64)
	return int(n), ok && len(m) == 1
}

// KnownAfterKey is the only key of an encoded unknown value. No field of an operation can have this name.
const KnownAfterKey = "(known after)"

// KnownAtSubmission is the text for a value that is known as soon as the run exists.
const KnownAtSubmission = "(known at submission)"

// KnownAfter reports whether v is an encoded unknown value, and returns the calls after which it is known. It returns
// no calls for a value that is known as soon as the run exists.
func KnownAfter(v any) (seqs []int, unknown bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return nil, false
	}
	list, ok := m[KnownAfterKey].([]any)
	if !ok {
		return nil, false
	}
	for _, e := range list {
		seq, ok := e.(int64)
		if !ok {
			return nil, false
		}
		seqs = append(seqs, int(seq))
	}
	return seqs, true
}

// EncodedSize estimates the size of the encoding of v in bytes. The estimate is never too low.
func EncodedSize(v any) int {
	const head, number = 5, 9
	switch v := v.(type) {
	case string:
		return head + len(v)
	case int64:
		return number
	case []any:
		size := head
		for _, e := range v {
			size += EncodedSize(e)
		}
		return size
	case map[string]any:
		size := head
		for key, e := range v {
			size += head + len(key) + EncodedSize(e)
		}
		return size
	case interface{ EncodedSize() int }:
		return v.EncodedSize()
	default:
		return 1
	}
}
