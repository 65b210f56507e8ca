package journal

import (
	"strconv"
	"time"

	"writ/internal/sqldb"
)

const metaFloor = "certificate floor"

// CertificateFloor returns the time before which issued certificates of the datacenter are invalid, zero if all are
// valid. An attacker with write access to the database can restore an earlier value; nodes remember the newest one they
// have seen.
func (tx *Tx) CertificateFloor() (time.Time, error) {
	micros, err := tx.number(metaFloor)
	if err != nil || micros == 0 {
		return time.Time{}, err
	}
	return sqldb.Time(micros), nil
}

// SetCertificateFloor stores the time returned by CertificateFloor.
func (tx *Tx) SetCertificateFloor(floor time.Time) error {
	return tx.setMeta(metaFloor, strconv.FormatInt(sqldb.Micros(floor), 10))
}
