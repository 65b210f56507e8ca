package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"syscall"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"writ"
)

func (db *DB) openSQLite(ctx context.Context, path string, migrations fs.FS) error {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)" +
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(4000)&_pragma=temp_store(MEMORY)"
	if path == ":memory:" {
		dsn = "file:" + writ.NewUUID() + "?mode=memory&cache=shared&_txlock=immediate&_pragma=foreign_keys(1)"
	} else if err := reserve(path); err != nil {
		return fmt.Errorf("open %s: %w", path, storeError(err, path, restart))
	} else if err := examine(ctx, path, openExamination); err != nil {
		return err
	}
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if path == ":memory:" {
		pool.SetMaxOpenConns(1) // a shared cache locks whole tables; a single connection never blocks itself
		pool.SetConnMaxLifetime(0)
		pool.SetMaxIdleConns(1)
	} else {
		pool.SetMaxIdleConns(idleConnections)
	}
	if _, err := upgrade(ctx, goose.DialectSQLite3, pool, migrations, nil); err != nil {
		pool.Close()
		return fmt.Errorf("bring %s up to date: %w", path, storeError(err, path, restart))
	}
	db.sql, db.engine = pool, inMemory{pool}
	if path != ":memory:" { // preparing needs a second connection
		db.health.path = path
		db.prepared = &prepared{sql: pool, texts: make(map[string]*sql.Stmt)}
		writing, err := sql.Open("sqlite", dsn)
		if err != nil {
			pool.Close()
			return fmt.Errorf("open %s: %w", path, err)
		}
		writing.SetMaxOpenConns(1)
		db.engine = &writer{pool: writing}
	}
	return nil
}

// reserve creates the file with mode 0600. SQLite would make the file readable for all users. It gives its other files,
// such as the write-ahead log, the mode of this file.
//
//failpoint:none it makes an empty file
func reserve(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// isFileError reports whether err means that a file cannot be written now.
func isFileError(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EDQUOT)
}

// sqliteCode returns the primary result code of a SQLite error, or 0 for other errors.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// sqliteDamaged reports whether SQLite found a file inconsistent.
func sqliteDamaged(err error) bool {
	code := sqliteCode(err)
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

func sqliteUnavailable(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY,
		sqlite3.SQLITE_LOCKED:
		return true
	}
	return false
}

func sqliteDuplicate(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// Copy writes a snapshot of the SQLite file at the path `from` into a new file, even while other processes use it.
func Copy(ctx context.Context, from, to string) (err error) {
	if err := reserve(to); err != nil {
		return fmt.Errorf("make %s: %w", to, storeError(err, to, restart))
	}
	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: from}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return fmt.Errorf("open %s: %w", from, err)
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if _, err := pool.ExecContext(ctx, "VACUUM INTO $1", to); err != nil {
		return fmt.Errorf("copy %s: %w", from, storeError(err, from, restart))
	}
	return nil
}
