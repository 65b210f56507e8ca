package journal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"sync"
	"sync/atomic"

	"writ"
	"writ/internal/cbor"
)

// The database server may be controlled by someone other than the supervisor. Rows that affect decisions carry a
// message authentication code, under a key that is not in the database. An attacker with write access to the database
// can delete rows and restore earlier contents of a row. The attacker cannot create, move or copy a row. The tables
// below list the columns that a code covers; a test compares them with the schema.

// covered describes a table whose rows carry a code.
type covered struct {
	table   string
	key     []string          // key columns; the code covers them first, in this order
	columns []string          // other covered columns, in this order
	free    map[string]string // uncovered columns, each with the reason why it is harmless
}

const (
	searched  = "only searched: the covered body decides"
	ordered   = "only searched: the covered body decides; hiding a row from a search equals deleting it"
	perSigner = "it limits the rows of a signer; an attacker with write access may fill or empty the database anyway"
)

// The column "body" holds the code before the record; other tables have a column "mac".
var coveredTables = []covered{
	{"runs", []string{"id", "number"}, []string{"body"}, map[string]string{
		"state": searched, "open": ordered, "project": searched, "deployment": ordered, "revision": ordered,
		"accepted": searched,
		"due":      "a run is never ended before the time in its body",
		"pending":  ordered, "judged": "each step checks the rights of the signer again", "engine": searched,
		"ended": "deleting a run early only withholds it", "needed": "deleting a run early only withholds it",
	}},
	{"calls", []string{"place"}, []string{"body"}, map[string]string{
		"run": searched, "seq": searched, "state": searched, "open": ordered, "node": searched, "project": ordered,
		"kind": ordered, "name": ordered, "claimed": ordered, "ready": searched, "retry_at": searched, "planned": searched,
		"cpu_hundredths": searched, "memory_mib": searched, "disk_gib": searched,
	}},
	{"nodes", []string{"id"}, []string{"body"}, map[string]string{"name": searched, "key_id": searched}},
	{"resources", []string{"project", "kind", "name"}, []string{"body"}, map[string]string{
		"node": searched, "cpu_hundredths": searched, "memory_mib": searched, "disk_gib": searched,
	}},
	{
		"departed", []string{"uid", "node"}, []string{"body"},
		map[string]string{"gone": "deleting a departed resource early only withholds it"},
	},
	{"tokens", []string{"id"}, []string{"key", "created_by", "expires", "spent", "spent_key"}, nil},
	{"token_uses", []string{"token"}, []string{"uses", "used"}, nil},
	{"boot_tokens", []string{"id"}, []string{"body"}, map[string]string{"expires": ordered}},
	{"batches", []string{"id"}, []string{"body"}, map[string]string{"until": ordered}},
	{
		"secrets", []string{"project", "name", "version"}, []string{"sealed", "statement", "set_by", "set_at", "removed"},
		nil,
	},
	{"statements", []string{"digest"}, []string{"answer", "expires"}, map[string]string{
		"signed": "it is evidence and never read; it contains its own signature",
		"signer": perSigner, "size": perSigner,
	}},
	{
		"refusals", []string{"digest"}, []string{"answer", "expires"},
		map[string]string{"signer": perSigner, "size": perSigner, "refused": perSigner},
	},
	{"deployments", []string{"project", "name"}, []string{"revision"}, nil},
	{"deliveries", []string{"run", "seq", "try", "delivery"}, []string{"node", "digest", "epoch", "sent"}, nil},
	{"results", []string{"run", "seq", "try"}, []string{"digest"}, nil},
	{"holds", []string{"id"}, []string{"body"}, nil},
}

// freeTables lists the tables without codes, each with the reason.
var freeTables = map[string]string{
	"payloads":         "each is verified when it is read: by the digest in its run's ID, and by its signature",
	"roster_links":     "the chain of signatures and the history in each roster are verified from the pin",
	"rosters":          "the chain of their signatures is verified from the pin",
	"frames":           "they are evidence, stored by digest and signed by nodes",
	"logs":             "they are only shown",
	"events":           "they are only shown: coordinators and clients trust no decision to them",
	"event_counter":    "it numbers events",
	"event_marks":      "it only determines which events may be deleted",
	"acknowledgements": "it only determines the next events for a coordinator",
	"lives":            "they are only shown: the facts about a machine affect no decision",
	"loads":            "it only determines which of the permitted nodes has room",
	"forgotten":        "it only lists the runs whose rows may be deleted",
	"run_counter":      "two runs with the same number cannot read each other's calls: each call contains the ID of its run",
	"meta":             "its values that affect decisions carry a code: see codedValues",
}

// Protection configures the codes of a journal.
type Protection struct {
	Key []byte // a secret that is not in the journal
	// Refused is called for each rejected row, normally once per row, and may be nil.
	Refused func(err *writ.Error)
}

// codes creates and verifies the message authentication codes of rows.
type codes struct {
	Protection
	tables map[string]*sync.Pool // of hash.Hash

	mu   sync.Mutex
	told map[string]bool // rejected rows that Refused was called for
}

// maxRefusedRows limits the remembered rejected rows. At the limit, all are forgotten and may be reported again.
const maxRefusedRows = 1000

const metaCode = "meta" // name of the key for the values in meta

// keyring holds the codes of a journal. Without codes no row is verified.
type keyring struct{ codes atomic.Pointer[codes] }

// Protect makes the journal write and verify codes. Call it before BeginEpoch, which compares the key with the journal.
// Without Protect, no row is verified, which suits tools that only copy a journal.
func (k *keyring) Protect(p Protection) error {
	c := &codes{Protection: p, tables: make(map[string]*sync.Pool), told: make(map[string]bool)}
	names := []string{metaCode}
	for _, t := range coveredTables {
		names = append(names, t.table)
	}
	for _, table := range names {
		key, err := hkdf.Key(sha256.New, p.Key, nil, "writ-journal-v1 "+table, sha256.Size)
		if err != nil {
			return fmt.Errorf("derive the key of %s: %w", table, err)
		}
		c.tables[table] = &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}
	}
	k.codes.Store(c)
	return nil
}

// sum appends the code of a row to b. The code covers the encoded values and the body.
func (c *codes) sum(b []byte, table string, values []any, body []byte) ([]byte, error) {
	for i, v := range values { // some engines return empty bytes as NULL
		if b, ok := v.([]byte); v == nil || ok && b == nil {
			values[i] = []byte{}
		}
	}
	head, err := cbor.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encode a row of %s: %w", table, err)
	}
	pool := c.tables[table]
	h := pool.Get().(hash.Hash)
	defer pool.Put(h)
	h.Reset()
	h.Write(head)
	h.Write(body)
	return h.Sum(b), nil
}

// A body with a code starts with a byte that no record starts with, followed by the code.
const (
	coded     = 0xff
	codedHead = 1 + sha256.Size
)

// withCode returns the stored form of a body, with its code.
func (tx *Tx) withCode(table string, body []byte, key ...any) ([]byte, error) {
	if tx.codes == nil {
		return body, nil
	}
	b := make([]byte, 1, codedHead+len(body))
	b[0] = coded
	b, err := tx.codes.sum(b, table, key, body)
	return append(b, body...), err
}

// open verifies a stored body and returns the body that was passed to withCode. The error is RECORD_FORGED if the
// journal did not write this body into this row.
func (tx *Tx) open(table string, stored []byte, key ...any) ([]byte, error) {
	isCoded := len(stored) >= codedHead && stored[0] == coded
	if tx.codes == nil {
		if isCoded {
			return stored[codedHead:], nil
		}
		return stored, nil
	}
	if isCoded {
		sum, err := tx.codes.sum(make([]byte, 0, sha256.Size), table, key, stored[codedHead:])
		if err != nil {
			return nil, err
		}
		if hmac.Equal(sum, stored[1:codedHead]) {
			return stored[codedHead:], nil
		}
	}
	return nil, tx.codes.refuse(table, key)
}

// code returns the code of a row in a table with a column for it. It covers the key and the covered columns.
func (tx *Tx) code(table string, values ...any) ([]byte, error) {
	if tx.codes == nil {
		return nil, nil
	}
	return tx.codes.sum(nil, table, values, nil)
}

// check verifies the code of a row in a table with a column for it. values must be the same as in the call of code: the
// key comes first.
func (tx *Tx) check(table string, mac []byte, values ...any) error {
	if tx.codes == nil {
		return nil
	}
	sum, err := tx.codes.sum(make([]byte, 0, sha256.Size), table, values, nil)
	if err != nil || hmac.Equal(sum, mac) {
		return err
	}
	return tx.codes.refuse(table, values[:len(keyOf(table))])
}

func keyOf(table string) []string {
	for _, t := range coveredTables {
		if t.table == table {
			return t.key
		}
	}
	return nil
}

// refuse returns the error for a row that the journal did not write, and passes it to Refused.
func (c *codes) refuse(table string, key []any) *writ.Error {
	var row strings.Builder
	for i, k := range key {
		if i > 0 {
			row.WriteByte(' ')
		}
		fmt.Fprint(&row, k)
	}
	err := writ.Errorf(writ.CodeRecordForged, "the row %q of %s in the journal was not written by the supervisor",
		row.String(), table).
		WithHint("check which accounts can write to the journal's database, then restore the journal from a backup")
	c.mu.Lock()
	name := table + " " + row.String()
	news := !c.told[name]
	if news {
		if len(c.told) >= maxRefusedRows {
			clear(c.told)
		}
		c.told[name] = true
	}
	c.mu.Unlock()
	if news && c.Refused != nil {
		c.Refused(err)
	}
	return err
}

// isForged reports whether err means that a row is not as the journal wrote it.
func isForged(err error) bool { return writ.CodeOf(err) == writ.CodeRecordForged }

// protected names the value in meta that identifies the key of the codes.
const protected = "protected"

// markKey stores a value that identifies the key of the codes when an epoch begins. It returns an error if the journal
// has the value of another key.
func (tx *Tx) markKey() error {
	if tx.codes == nil {
		return nil
	}
	sum, err := tx.codes.sum(nil, metaCode, []any{protected}, nil)
	if err != nil {
		return err
	}
	want := hex.EncodeToString(sum)
	switch mark, err := tx.meta(protected); {
	case err != nil || mark == want:
		return err
	case mark != "":
		return writ.Errorf(writ.CodeRecordForged, "the journal was written by a supervisor with another key").
			WithHint("start the supervisor with the data directory of this journal, or restore both from one backup")
	}
	return tx.setMeta(protected, want)
}
