package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"io/fs"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"writ"
)

// postgresUnavailable reports whether an error of PostgreSQL or the network means that the store cannot be used now.
// The codes are in appendix A of the PostgreSQL manual.
func postgresUnavailable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false // requested by the caller
	}
	if e, ok := errors.AsType[*pgconn.PgError](decisive(err)); ok {
		switch e.Code {
		case "25006", // read-only: a standby, or a server configured as read-only
			"25P03", "57014": // timeout of a transaction or statement
			return true
		}
		switch e.Code[:min(2, len(e.Code))] {
		case "08", "53", "58": // connection; disk full, memory, connections; input and output
			return true
		case "57": // shutting down, crashed, starting
			return true
		}
		return isConflict(err)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false // file errors resemble network errors
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || pgconn.SafeToRetry(err)
}

// postgresCondition returns the error of a database with a known fault, such as a full disk, or else nil. An operator
// can remove the fault while the process runs.
func postgresCondition(err error, next nextStep) error {
	if errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection) {
		return because(err, writ.CodeStoreReadOnly, "no host of the address is a PostgreSQL that accepts writes").
			WithHint("name the primary in the address, or promote a standby; %s", next)
	}
	e, ok := errors.AsType[*pgconn.PgError](decisive(err))
	if !ok {
		return nil
	}
	switch e.Code {
	case "53100":
		return because(err, writ.CodeStoreFull, "the disk of PostgreSQL is full: %s", e.Message).
			WithHint("free space on the server; %s", next)
	case "25006":
		return because(err, writ.CodeStoreReadOnly, "PostgreSQL rejects writes: %s", e.Message).
			WithHint("use the address of the primary, or turn off default_transaction_read_only of the server, database or role; "+
				"%s", next)
	case "53300":
		return because(err, writ.CodeStoreUnavailable, "PostgreSQL accepts no more connections: %s", e.Message).
			WithHint("a process of writ needs up to %d: raise max_connections, or the CONNECTION LIMIT of the role or "+
				"database; %s", maxReaders+1, next)
	case "42501":
		return because(err, writ.CodeStoreUnavailable, "PostgreSQL denies access to the store: %s", e.Message).
			WithHint("%s; %s", ownerHint, next)
	case "XX001", "XX002":
		return because(err, writ.CodeStoreDamaged, "PostgreSQL found that its data is damaged: %s", e.Message).
			WithHint("check the database with pg_amcheck, and restore it from a backup: docs/manual/postgresql.md")
	}
	return nil
}

// postgresCause returns the part of an error that may be shown: the text of PostgreSQL or of the network, without the
// text that the client library adds, which contains user and database names. It is empty or starts with a colon.
func postgresCause(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return ": " + e.Message
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return ": " + e.Error()
	}
	return ""
}

// isConflict reports whether PostgreSQL rolled back a transaction in favour of another one, so that an immediate retry
// helps.
func isConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01" || e.Code == "55P03")
}

// refused reports whether PostgreSQL rejected a commit. It returns false if the response was lost.
func refused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR"
}

// postgresUnkept reports whether PostgreSQL rejected invalid characters in a text. Untrusted clients choose some of the
// texts: ids of tokens, runs and nodes.
func postgresUnkept(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "22021" || e.Code == "22P05")
}

func postgresDuplicate(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "23505"
}
