package sqldb

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"writ"
)

// ownerHint explains how a role gets all rights of a store.
const ownerHint = "make the user of the address the owner of the database, its schema and its tables, with ALTER " +
	"DATABASE name OWNER TO role and so on; restore dumps as that user"

// refusal is the message for people if PostgreSQL rejects the opening of a store with an error code. An operator has to
// change a setting, so a retry is useless.
type refusal struct{ message, hint string }

// refusals lists the known rejections by error code (appendix A of the PostgreSQL manual). The text of a PostgreSQL
// error may be in any language.
var refusals = map[string]refusal{
	"28P01": {"PostgreSQL rejected the login",
		"the user is in the address, the password in ~/.pgpass or the file named by PGPASSFILE"},
	"28000": {"PostgreSQL rejected the login",
		"check the user in the address, its LOGIN right, and the lines of pg_hba.conf for this user, database and address"},
	"3D000": {"the database does not exist",
		"make it with `createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8 NAME`"},
	"55000": {"the database accepts no connections", "ALTER DATABASE name ALLOW_CONNECTIONS true; or name another database"},
	"42501": {"the user of the address lacks a right", ownerHint},
	"3F000": {"the search_path of the session has no existing schema",
		"create the schema, or correct search_path in the address or with ALTER ROLE"},
	"42704": {"PostgreSQL does not know a setting of the session",
		"use PostgreSQL 15 or later, and correct the parameters in the address"},
	"22023": {"PostgreSQL rejected a setting of the session",
		"correct the parameters in the address; the server needs an operating system with POLLRDHUP, such as Linux"},
}

// connectError converts the error of a connection attempt, or of the preparation of a database, to an error for people.
func connectError(err error) error {
	if refusedByPooler(err) {
		return poolerError("it refuses the settings of a session", err)
	}
	if e, ok := errors.AsType[*pgconn.PgError](decisive(err)); ok {
		r, known := refusals[e.Code]
		if !known && strings.HasPrefix(e.Code, "28") {
			r, known = refusals["28000"], true
		}
		if known {
			return because(err, writ.CodeUsage, "%s: %s", r.message, e.Message).WithHint("%s", r.hint)
		}
	}
	return storeError(err, "", restart)
}
