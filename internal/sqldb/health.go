package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"sync"
	"time"

	"writ"
)

const (
	// minFree is the free space in bytes below which the disk counts as full. On a full disk SQLite still writes for a
	// while, into the existing part of its write-ahead log.
	minFree = 64 << 10
	// openExamination limits how long Open examines a file. Damage that is not found by then does not stop Open.
	openExamination = 5 * time.Second
	// checkExamination limits one examination by Check. Every examination starts at the beginning of the file, so in a
	// very large file some pages are never examined.
	checkExamination = 2 * time.Second
	// examinePause is the shortest pause between two examinations. After a long examination the pause is examineShare
	// times as long as the examination.
	examinePause = 10 * time.Second
	examineShare = 200
)

// health is the state of a store's file.
type health struct {
	path string // "" unless the store is a file

	mu     sync.Mutex
	damage error // found once, kept until the process ends
	next   time.Time
}

// Check returns STORE_DAMAGED, STORE_READ_ONLY or STORE_FULL if the store cannot be used. From time to time it examines
// the file for up to checkExamination, and so finds damage in pages that are never read. For a store that is not a file
// it returns nil.
func (db *DB) Check(ctx context.Context) error { return db.health.check(ctx) }

func (h *health) check(ctx context.Context) error {
	if h.path == "" {
		return nil
	}
	if h.claimExamination() {
		began := time.Now()
		h.examined(examine(ctx, h.path, checkExamination), time.Since(began))
	}
	h.mu.Lock()
	damage := h.damage
	h.mu.Unlock()
	if damage != nil {
		return damage
	}
	return h.room()
}

// claimExamination reports whether the caller has to examine the file. Other callers do not wait for the examination.
func (h *health) claimExamination() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.damage != nil || time.Now().Before(h.next) {
		return false
	}
	h.next = time.Now().Add(checkExamination + examinePause)
	return true
}

// examined records the result of an examination that took the given time.
func (h *health) examined(damage error, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.damage == nil {
		h.damage = damage
	}
	h.next = time.Now().Add(max(examinePause, examineShare*took))
}

// note records err if its code is STORE_DAMAGED. It returns err.
func (h *health) note(err error) error {
	if writ.CodeOf(err) == writ.CodeStoreDamaged && h.path != "" {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.damage == nil {
			h.damage = err
		}
	}
	return err
}

// examine returns STORE_DAMAGED if the pages of a SQLite file are inconsistent. It uses a new connection, because a
// cache may hide the damage, and gives up after limit.
func examine(ctx context.Context, path string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(1000)")
	if err != nil {
		return nil // Open reports such an error
	}
	defer pool.Close()
	var result string
	err = pool.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result)
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil && result != "ok":
		return damaged(path, errors.New(result))
	case sqliteDamaged(err):
		return damaged(path, err)
	}
	return nil
}

// named formats a path as part of a sentence. The path of a store in memory is empty.
func named(path string) string {
	if path == "" {
		return ""
	}
	return " " + path
}

func damaged(path string, err error) error {
	return writ.Errorf(writ.CodeStoreDamaged, "the store%s is damaged: %w", named(path), err).
		WithHint("stop the daemon, move its data directory away and keep it, and run `writ restore --data DIR FILE`; docs/manual/runbook.md describes the repair of a node's store, and of a store without a backup")
}

func full(path string, err error, next nextStep) error {
	return writ.Errorf(writ.CodeStoreFull, "cannot write the store%s because its disk is full: %w", named(path), err).
		WithHint("free disk space; %s", next)
}

func readOnly(path string, err error, next nextStep) error {
	return writ.Errorf(writ.CodeStoreReadOnly, "cannot write the store%s because it is read-only: %w", named(path), err).
		WithHint("make the file and its disk writable for the user of the daemon; %s", next)
}
