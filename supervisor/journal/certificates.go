package journal

import (
	"strconv"
	"time"

	"writ/internal/sqldb"
)

const metaFloor = "certificate floor"

// CertificateFloor returns before when issued certificates of the datacenter do not count any more, zero if all count. A database can take that
// back; nodes that have seen it remember it.
func (tx *Tx) CertificateFloor() (time.Time, error) {
	micros, err := tx.number(metaFloor)
	if err != nil || micros == 0 {
		return time.Time{}, err
	}
	return sqldb.Time(micros), nil
}

// SetCertificateFloor replaces it.
func (tx *Tx) SetCertificateFloor(floor time.Time) error {
	return tx.setMeta(metaFloor, strconv.FormatInt(sqldb.Micros(floor), 10))
}
