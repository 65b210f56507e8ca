package sqldb

import (
	"context"
	"database/sql"
	"strings"

	"writ"
)

// textOrder holds the settings of a database that determine the order of its texts.
type textOrder struct {
	encoding string
	collate  string // LC_COLLATE, used by the provider "c"
	provider string // of locales: "c" for the C library, "i" for ICU, "b" for PostgreSQL itself
	locale   string // of ICU or of PostgreSQL, or ""
}

// checkOrder rejects a database that sorts texts by the rules of a language. Lists would differ between engines, and an
// update of the system's libraries could silently corrupt every index.
func checkOrder(ctx context.Context, conn *sql.Conn) error {
	var o textOrder
	// The columns of a provider depend on the version: none before 15, daticulocale in 15 and 16, then datlocale.
	err := conn.QueryRowContext(ctx, `SELECT pg_encoding_to_char(encoding), datcollate,
			coalesce(to_jsonb(d) ->> 'datlocprovider', 'c'),
			coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale', '')
		FROM pg_database d WHERE datname = current_database()`).
		Scan(&o.encoding, &o.collate, &o.provider, &o.locale)
	if err != nil {
		return err
	}
	if o.encoding == "UTF8" && o.byBytes() {
		return nil
	}
	return writ.Errorf(writ.CodeUsage, "the database has the encoding %s and orders texts by %s", o.encoding, o.rules()).
		WithHint("make one with `createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8 NAME`")
}

// byBytes reports whether texts are ordered by their bytes.
func (o textOrder) byBytes() bool {
	switch o.provider {
	case "b": // every locale of PostgreSQL itself orders by code points
		return true
	case "c":
		switch strings.ToUpper(o.collate) {
		case "C", "POSIX", "C.UTF-8", "C.UTF8":
			return true
		}
	}
	return false
}

// rules names the rules of the order.
func (o textOrder) rules() string {
	if o.provider == "i" {
		return "the rules of ICU for " + o.locale
	}
	return o.collate
}
