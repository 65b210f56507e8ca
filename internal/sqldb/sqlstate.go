package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"writ"
)

// postgresUnavailable recognises what PostgreSQL says, or the network instead of it, when a store cannot be used now. The codes are those
// of appendix A of its manual.
func postgresUnavailable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false // the caller's own wish
	}
	if e, ok := errors.AsType[*pgconn.PgError](decisive(err)); ok {
		switch e.Code {
		case "25006", // read-only: a standby, or a server that was told so
			"25P03", "57014": // too long in a transaction, or in a statement
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
		return false // what the system says of a file looks like what it says of a network
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || pgconn.SafeToRetry(err)
}

// postgresCondition returns the error of a database that is damaged, full or read-only, nil for others.
func postgresCondition(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return nil
	}
	switch e.Code {
	case "53100":
		return (&writ.Error{Code: writ.CodeStoreFull, Message: "the disk of PostgreSQL is full: " + e.Message, Err: err}).
			WithHint("free space on the server; writ continues by itself")
	case "25006":
		return (&writ.Error{Code: writ.CodeStoreReadOnly, Message: "PostgreSQL takes no writes: " + e.Message, Err: err}).
			WithHint("use the address of the primary, or make the server writable; writ continues by itself")
	case "XX001", "XX002":
		return (&writ.Error{Code: writ.CodeStoreDamaged, Message: "PostgreSQL found that its data is damaged: " + e.Message, Err: err}).
			WithHint("check the database with pg_amcheck, and restore it from a backup: docs/manual/postgresql.md")
	}
	return nil
}

// postgresCause is what people are told of an error besides that a store cannot be used: PostgreSQL's words, or the network's, without those of
// the client, which name users and databases to whoever asks. It is empty, or begins with a colon.
func postgresCause(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return ": " + e.Message
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return ": " + e.Error()
	}
	return ""
}

// isConflict recognises that PostgreSQL undid a transaction in favour of another one: it can be done again at once.
func isConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01" || e.Code == "55P03")
}

// refused reports whether PostgreSQL itself said that there is no commit, as opposed to losing its voice.
func refused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR"
}

// postgresUnkept recognises that a text has bytes which are no character to PostgreSQL. Strangers choose what is looked up: ids of tokens, runs and
// nodes.
func postgresUnkept(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "22021" || e.Code == "22P05")
}

func postgresDuplicate(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "23505"
}

// connectError converts the error of a connection attempt to an error for people.
func connectError(err error) error {
	if refusedByPooler(err) {
		return poolerError("it refuses the settings of a session", err)
	}
	err = storeError(err, "")
	e, ok := errors.AsType[*pgconn.PgError](decisive(err))
	switch {
	case !ok:
		return err
	case strings.HasPrefix(e.Code, "28"):
		return writ.Errorf(writ.CodeUsage, "PostgreSQL does not let us in: %s", e.Message).
			WithHint("the user stands in the address, the password in ~/.pgpass or the file that PGPASSFILE names")
	case e.Code == "3D000":
		return writ.Errorf(writ.CodeUsage, "PostgreSQL has no such database: %s", e.Message).
			WithHint("make it with `createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8 NAME`")
	}
	return err
}
