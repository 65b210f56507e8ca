package journal

import (
	"crypto/hmac"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/internal/sqldb"
)

// The table meta holds named values of many kinds. Each name is in one of the two tables below.

// codedValues lists the values that affect decisions, each with the decision. The code of a value covers its name, too.
var codedValues = map[string]string{
	metaFloor:     "which certificates are valid: a person's statement raised it",
	metaReconcile: "which runs wait until the nodes have reported their calls",
}

// freeValues lists the values without a code, each with the reason.
var freeValues = map[string]string{
	metaJournal: "it identifies events, which are only shown",
	feedPrefix:  "like metaJournal, for one coordinator; the rest of the name is its URL",
	metaHistory: "it only determines which events coordinators receive",
	metaEpoch:   "nodes remember the highest epoch, and so does the mark beside the key",
	metaEpochs:  "an added epoch hides that the journal came from a backup, which only withholds information; a deleted one makes runs wait",
	metaLease:   "a process with write access may decide which one serves",
	metaProbe:   "it is never read",
	protected:   "it is a code itself",
}

// Names in meta that are not declared elsewhere.
const (
	metaJournal = "journal"
	metaHistory = "history"
	metaEpoch   = "epoch"
	metaEpochs  = "epochs"
	metaLease   = "lease"
	metaProbe   = "probe"
)

// meta returns a named value, "" if it is missing. The error is RECORD_FORGED if the value is in codedValues and the
// journal did not write it.
func (tx *Tx) meta(name string) (string, error) {
	var value string
	var mac []byte
	err := tx.QueryRowContext(tx.ctx, metaText, name).Scan(&value, &mac)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil || codedValues[name] == "" || tx.codes == nil {
		return value, err
	}
	want, err := tx.code(metaCode, name, value)
	if err == nil && !hmac.Equal(want, mac) {
		err = tx.codes.refuse("meta", []any{name})
	}
	return value, err
}

const metaText = `SELECT value, mac FROM meta WHERE name = $1`

func (tx *Tx) setMeta(name, value string) (err error) {
	var mac []byte
	switch {
	case codedValues[name] != "":
		mac, err = tx.code(metaCode, name, value)
	case freeValues[name] == "" && !strings.HasPrefix(name, feedPrefix):
		err = writ.Errorf(writ.CodeInternal, "the journal has no value %q", name)
	}
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO meta (name, value, mac) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET value = excluded.value, mac = excluded.mac`, name, value, mac)
}

const metaFloor = "certificate floor"

// CertificateFloor returns the time before which issued certificates of the datacenter are invalid, zero if all are
// valid. An attacker with write access to the database can restore an earlier value; nodes remember the newest value
// that they have seen.
func (tx *Tx) CertificateFloor() (time.Time, error) {
	micros, err := tx.number(metaFloor)
	return sqldb.Time(micros), err
}

// SetCertificateFloor stores the time that CertificateFloor returns.
func (tx *Tx) SetCertificateFloor(floor time.Time) error {
	return tx.setMeta(metaFloor, strconv.FormatInt(sqldb.Micros(floor), 10))
}
