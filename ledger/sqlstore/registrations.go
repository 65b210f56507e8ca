package sqlstore

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// registrationTable holds supervisors that wait for a place in the roster.
type registrationTable struct{ tables }

// keyText encodes a key as text for a column that queries compare: database engines compare bytes differently.
func keyText(key []byte) string { return base64.StdEncoding.EncodeToString(key) }

// AddRegistration stores a new registration. If there are then too many, it deletes one registration.
func (s *registrationTable) AddRegistration(ctx context.Context, r ledger.Registration) error {
	err := s.db.Write(failpoint.At(ctx, failpoint.RegistrationKept), func(tx *sqldb.Tx) error {
		added, err := affected(tx.ExecContext(ctx, `
			INSERT INTO registrations (id, key_text, token, name, nonce, proof, url, network, received)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (id) DO NOTHING`,
			r.ID().String(), keyText(r.Key), r.Token, r.Name, blob(r.Nonce), blob(r.Proof), r.URL, r.Network,
			micros(r.Received)))
		if err != nil || !added {
			return err
		}
		return displaceRegistration(ctx, tx, r)
	})
	if err != nil {
		return fmt.Errorf("add registration: %w", err)
	}
	return nil
}

// Registrations lists the waiting supervisors.
func (s *registrationTable) Registrations(ctx context.Context) ([]ledger.Registration, error) {
	rows, err := s.db.Query(ctx, `
		SELECT key_text, token, name, nonce, proof, url, network, received
		FROM registrations
		ORDER BY received, id`)
	return collect(rows, err, func(rows scanner) (r ledger.Registration, err error) {
		var key string
		var received int64
		if err := rows.Scan(&key, &r.Token, &r.Name, &r.Nonce, &r.Proof, &r.URL, &r.Network, &received); err != nil {
			return r, err
		}
		r.Received = sqldb.Time(received)
		if r.Key, err = base64.StdEncoding.DecodeString(key); err != nil {
			err = s.damage.row(err, "the registration of %q", r.Name)
		}
		return r, err
	})
}

// RemoveRegistrations deletes old registrations.
func (s *registrationTable) RemoveRegistrations(ctx context.Context, before time.Time) error {
	return s.db.Write(failpoint.At(ctx, failpoint.RegistrationsForgotten), func(tx *sqldb.Tx) error {
		err := tx.Queue(ctx, `DELETE FROM registrations WHERE received < $1`, micros(before))
		return err
	})
}

// displaceRegistration deletes a registration if too many wait. The ledger has no token to verify proofs with, and
// anyone can send an invalid proof. The network with the most registrations therefore loses one registration; proofs
// only decide which of its registrations.
func displaceRegistration(ctx context.Context, tx *sqldb.Tx, newest ledger.Registration) error {
	var waiting int
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM registrations`).Scan(&waiting); err != nil ||
		waiting <= ledger.MaxRegistrations {
		return err
	}
	var displaced string
	err := tx.QueryRowContext(ctx, `
		SELECT id
		FROM registrations
		ORDER BY COUNT(*) OVER (PARTITION BY network) DESC, LENGTH(proof) > 0, received, id
		LIMIT 1`).Scan(&displaced)
	if err != nil {
		return err
	}
	if displaced == newest.ID().String() {
		return writ.Errorf(writ.CodeRateLimited,
			"%d supervisors already wait for a place in the roster, and all others in this network have proved their token",
			ledger.MaxRegistrations).WithHint("start the supervisor with the token that `writ dc add` prints")
	}
	err = tx.Queue(ctx, `DELETE FROM registrations WHERE id = $1`, displaced)
	return err
}

// blob returns a non-nil slice, because nil would be stored as NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
